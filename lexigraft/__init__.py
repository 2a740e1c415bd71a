"""lexigraft grafts a target-language vocabulary onto a pretrained language model.

The public names are imported on first use: `import lexigraft` loads neither torch nor transformers.
"""

__version__ = "0.3.0.dev0"

from lexigraft.lazy_imports import lazy_imports

_MODULES = {
    "UserError": "lexigraft.errors",
    "expand_tokenizer": "lexigraft.vocabulary.expand",
    "prune_tokenizer": "lexigraft.vocabulary.prune",
    "train_tokenizer": "lexigraft.vocabulary.train",
    "initializer": "lexigraft.initialization.registry",
    "graft": "lexigraft.initialization.graft",
    "graft_folder": "lexigraft.initialization.graft_folder",
    "inspect_tokenizer": "lexigraft.evaluation.inspection",
    "load_cell": "lexigraft.training.store",
    "export": "lexigraft.training.export",
}
__all__, __getattr__, __dir__ = lazy_imports(__name__, _MODULES, ["__version__"])
