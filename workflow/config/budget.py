"""A study's `budget`: a part of every amount of text, to try a large study at small cost."""

import posixpath
from typing import Any

# Amounts by registry: keys of an entry, and of what it holds under another key.
_LANGUAGE = ("train_sentences", "train_characters", "read_characters")
_SAMPLES = ("pairs", "questions")
_STRATEGY = ("sentences", "tokens", "tokens_per_language")
_READERS = ("vocabularies", "auxiliary", "initializers")


def apply_budget(study: dict[str, Any]) -> None:
    """Scale all amounts of a resolved study, and put its results into a folder of their own.

    Amounts are of text that is trained on or learned from: what is held out and tested stays, and
    so do numbers of passes, whose text shrinks. A name means one setting in a folder of results, so
    that results of a budget cannot lie beside those of the whole.
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
