"""Learned metrics: models that score finished predictions, run by an environment of their own."""

from lexigraft.lazy_imports import lazy_imports

_MODULES = {
    "prepare_metric": "lexigraft.evaluation.learned.prepare",
    "score_predictions": "lexigraft.evaluation.learned.scoring",
}
__all__, __getattr__, __dir__ = lazy_imports(__name__, _MODULES)
