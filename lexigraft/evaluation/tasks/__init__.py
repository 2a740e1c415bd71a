"""Kinds of tasks: one module each, whose name is the `kind` in config/tasks.yaml.

Since the Snakefile reads the declarations, `evaluate` imports torch, transformers and everything
else that takes long in its body.
"""
