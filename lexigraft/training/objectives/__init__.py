"""Training objectives: one file for each, found by `training.objective.objective`."""
