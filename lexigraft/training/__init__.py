"""Training: the phases of a strategy, and cells stored as the tensors that changed."""

from lexigraft.lazy_imports import lazy_imports

_MODULES = {
    "Strategy": "lexigraft.training.settings",
    "export": "lexigraft.training.export",
    "load_cell": "lexigraft.training.store",
    "read_strategy": "lexigraft.training.settings",
    "save_cell": "lexigraft.training.store",
    "train_cell": "lexigraft.training.train",
}
__all__, __getattr__, __dir__ = lazy_imports(__name__, _MODULES)
