"""Benchmark programs: `python -m benchmarks.<name> --help` explains what each measures."""
