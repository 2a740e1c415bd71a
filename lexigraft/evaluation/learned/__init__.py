"""Learned metrics: models that score finished predictions, run by an environment of their own."""

from lexigraft.doors import doors

_MODULES = {
    "prepare_metric": "lexigraft.evaluation.learned.prepare",
    "score_predictions": "lexigraft.evaluation.learned.scoring",
}
__all__, __getattr__, __dir__ = doors(__name__, _MODULES)
