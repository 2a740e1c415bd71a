"""Training objectives: one file for each, found by `training.registry.objective`."""
