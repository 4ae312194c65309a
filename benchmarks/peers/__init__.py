"""Motet beside the programs that people use today, on the same data in one run: ``python -m benchmarks.peers``."""
