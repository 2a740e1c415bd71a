"""Inference: generation and likelihoods of texts, used by training and evaluation."""

from lexigraft.lazy_imports import lazy_imports

_MODULES = {
    "Likelihood": "lexigraft.inference.likelihood",
    "generate": "lexigraft.inference.generation",
    "score_masked": "lexigraft.inference.likelihood",
    "score_texts": "lexigraft.inference.likelihood",
}
__all__, __getattr__, __dir__ = lazy_imports(__name__, _MODULES)
