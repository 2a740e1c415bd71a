"""Tasks of lm-evaluation-harness: its task definitions and scores, without an export.

Import from the modules: those that import the harness take seconds, and only one job needs them.
"""
