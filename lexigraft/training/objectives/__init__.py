"""Training objectives, one per file; `training.registry.objective` finds them."""
