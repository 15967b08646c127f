"""What is wrong with a parallel text."""
