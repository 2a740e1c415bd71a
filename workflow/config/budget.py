"""A study's `budget`: a fraction of every amount of text, to try out a large study cheaply."""

import posixpath
from typing import Any

# Amounts by registry: keys of an entry, and of mappings nested in it.
_LANGUAGE = ("train_sentences", "train_characters", "read_characters")
_SAMPLES = ("pairs", "questions")
_STRATEGY = ("sentences", "tokens", "tokens_per_language")
_READERS = ("vocabularies", "auxiliary", "initializers")


def apply_budget(study: dict[str, Any]) -> None:
    """Scale all amounts of a resolved study, and put its results into a separate folder.

    Amounts are those of text that is trained on or learned from. Held-out text, test sets and
    numbers of epochs are not scaled; the text of an epoch shrinks. A name stands for one setting in
    a results folder, so results with a budget cannot be stored next to those of the whole study.
    """
    if "budget" not in study:
        return
    budget = study["budget"]
    for language in study["languages"].values():
        _scale(language, _LANGUAGE, budget)
        for samples in language["samples"].values():
            _scale(samples, _SAMPLES, budget)
    for strategy in study["strategies"].values():
        _scale(strategy, _STRATEGY, budget)
        for phase in strategy["phases"]:
            _scale(phase, _STRATEGY, budget)
    for kind in _READERS:
        for entry in study[kind].values():
            if amount := entry.get("text"):
                _scale(amount, tuple(amount), budget)
    study["results"] = posixpath.join(study["results"], f"budget-{budget:g}")


def _scale(entry: dict[str, Any], keys: tuple[str, ...], budget: float) -> None:
    for key in keys:
        if entry.get(key) is not None:
            entry[key] = max(1, round(entry[key] * budget))
