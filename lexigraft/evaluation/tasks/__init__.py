"""Kinds of tasks: one module each, whose name is the `kind` in config/tasks.yaml.

A module declares its settings, its metrics and its cost, and how a cell is evaluated. Since the
Snakefile reads the declarations, `evaluate` imports torch, transformers and everything else that
takes long in its body.
"""
