"""Benchmarks, each a program: `python -m benchmarks.<name> --help` says what it measures."""
