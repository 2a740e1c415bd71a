"""Learned metrics: models that score finished predictions, run in a separate environment."""
