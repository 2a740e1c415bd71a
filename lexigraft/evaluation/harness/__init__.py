"""Multiple choice by lm-evaluation-harness: its task definitions and scores, on cells as they lie.

Import from the modules: those that open the harness take seconds, and one job alone needs them.
"""
