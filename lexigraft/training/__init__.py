"""Training: the phases of a strategy, and cells stored as what changed."""

from lexigraft.doors import doors

_MODULES = {
    "Strategy": "lexigraft.training.settings",
    "export": "lexigraft.training.export",
    "load_cell": "lexigraft.training.store",
    "read_strategy": "lexigraft.training.settings",
    "save_cell": "lexigraft.training.store",
    "train_cell": "lexigraft.training.train",
}
__all__, __getattr__, __dir__ = doors(__name__, _MODULES)
