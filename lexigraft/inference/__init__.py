"""Inference: generation and likelihoods of texts, which training and evaluation both use."""

from lexigraft.doors import doors

_MODULES = {
    "Likelihood": "lexigraft.inference.likelihood",
    "generate": "lexigraft.inference.generation",
    "score_masked": "lexigraft.inference.masked_likelihood",
    "score_texts": "lexigraft.inference.likelihood",
}
__all__, __getattr__, __dir__ = doors(__name__, _MODULES)
