"""Metrics of generated text: one module each, with the name of the metric in records.

The Snakefile reads their declarations, so they import numpy, sacrebleu and the like in functions.
"""
