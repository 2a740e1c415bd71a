"""Kinds of learned metrics: one module each, whose name is the `kind` in config/metrics.yaml.

The metrics environment, which lacks lexigraft, loads these files to score, and the Snakefile reads
their constants: at the top, they import the standard library only.
"""
