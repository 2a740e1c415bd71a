"""Embedding rows for a target vocabulary: recipes over source rows, or dense rows."""

from lexigraft.lazy_imports import lazy_imports

_MODULES = {
    "initializer": "lexigraft.initialization.registry",
    "methods": "lexigraft.initialization.registry",
    "Initializer": "lexigraft.initialization.interface",
    "Recipe": "lexigraft.initialization.recipe",
    "RecipePair": "lexigraft.initialization.recipe",
    "DenseRows": "lexigraft.initialization.recipe",
    "save_initialization": "lexigraft.initialization.storage",
    "load_initialization": "lexigraft.initialization.storage",
    "graft": "lexigraft.initialization.graft",
}
__all__, __getattr__, __dir__ = lazy_imports(__name__, _MODULES)
