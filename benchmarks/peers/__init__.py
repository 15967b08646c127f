"""The competitors of benchmarks/speed.py, each a process of its own, and what they share."""
