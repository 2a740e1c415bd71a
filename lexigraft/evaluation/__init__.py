"""Evaluate cells on tasks, with metrics that are comparable across vocabularies."""

from lexigraft.lazy_imports import lazy_imports

_MODULES = {
    "chrf": "lexigraft.evaluation.metrics.chrf",
    "fragmentation": "lexigraft.evaluation.fragmentation",
    "generate": "lexigraft.inference.generation",
    "rouge_l": "lexigraft.evaluation.metrics.rouge_l",
    "task_kind": "lexigraft.evaluation.task_kinds",
}
__all__, __getattr__, __dir__ = lazy_imports(__name__, _MODULES)
