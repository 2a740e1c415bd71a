"""Learned metrics: models that score finished predictions, run by an environment of their own."""
