"""What the machine and the system offer: devices, memory, files, the terminal."""
