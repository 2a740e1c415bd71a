"""Scores of one task of the harness, as the harness computes them, and of each of its examples."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lm_eval

from lexigraft.evaluation.harness.cell_model import CellModel
from lexigraft.evaluation.harness.data import handing_out
from lexigraft.evaluation.harness.tasks import load_task


@dataclass(frozen=True)
class Scored:
    """What a model scored on one task of the harness, or on a group of tasks.

    Attributes
    ----------
    metrics
        The harness's own, by its names: `acc`, and `acc_norm` where the task has it, 0 to 1.
    rows
        One per example, see `score`.
    facts
        `versions` and `shots` of each task, and how many `examples` it has and how many were
        `scored`.
    """

    metrics: dict[str, float]
    rows: list[dict[str, Any]]
    facts: dict[str, Any]


def score(
    model: CellModel,
    name: str,
    folder: str,
    data: Path,
    *,
    shots: int,
    by_length: bool,
    seed: int,
    draw: Callable[[str, int], list[int] | None],
) -> Scored:
    """Score a model on a task of the harness.

    Parameters
    ----------
    name, folder
        The task, see `load_task`.
    data
        What `keeping` kept of the data sets that it reads.
    shots
        Examples shown before each question. A task that is defined with none gets none.
    by_length
        Whether `output` is the best choice by log-likelihood over length in characters, which the
        harness's `acc_norm` counts, or by log-likelihood alone, as `acc` does.
    seed
        Of the draw of these examples, where the task does not take its first ones.
    draw
        From a task's name and the number of its examples to the numbers of those to score; None
        is all.

    Returns
    -------
    Scored
        A row has `id`, `task`, `source` (the question), `prompt` (what stands before each choice,
        examples included), `choices`, their `loglikelihoods`, `output` (the choice that is taken),
        `reference`, and the harness's metrics of it.
    """
    with handing_out(data):
        loaded = load_task(name, folder)
        tasks = loaded["tasks"]
        for task in tasks.values():
            if task.get_config("num_fewshot") != 0:
                task.set_config(key="num_fewshot", value=shots)
            task.set_fewshot_seed(seed=seed)
        sizes = {each: len(task.eval_docs) for each, task in tasks.items()}
        drawn = {each: draw(each, size) for each, size in sizes.items()}
        found = lm_eval.evaluate(
            lm=model,
            task_dict=loaded,
            samples={each: chosen for each, chosen in drawn.items() if chosen is not None} or None,
            bootstrap_iters=0,
        )
    assert found is not None  # it is, in processes that follow another
    samples = [(task, sample) for each, task in tasks.items() for sample in found["samples"][each]]
    rows = [_row(task, sample, by_length) for task, sample in samples]
    facts = {
        "versions": {each: found["versions"][each] for each in tasks},
        "shots": {each: found["n-shot"][each] for each in tasks},
        "examples": sum(sizes.values()),
        "scored": len(rows),
    }
    return Scored(_metrics(found["results"][name]), rows, facts)


def _metrics(result: Any) -> dict[str, float]:
    """The harness's `"acc,none"` and its like by their plain names."""
    return {
        key.removesuffix(",none"): float(value)
        for key, value in result.items()
        if key.endswith(",none") and "_stderr" not in key
    }


def _row(task: Any, sample: dict[str, Any], by_length: bool) -> dict[str, Any]:
    """One example. Where a choice stands before what is asked of all, it is shown with that."""
    contexts = [context for context, _ in sample["arguments"]]
    prompt = _shared(contexts)
    choices = [(context + ending)[len(prompt) :] for context, ending in sample["arguments"]]
    likelihoods = [float(value) for value, _ in sample["filtered_resps"]]
    lengths = [len(choice) if by_length else 1 for choice in task.doc_to_choice(sample["doc"])]
    judged = [value / max(length, 1) for value, length in zip(likelihoods, lengths, strict=True)]
    text = task.doc_to_text(sample["doc"])
    return {
        "id": f"{task.task_name}-{sample['doc_id']}",
        "task": task.task_name,
        "source": text if isinstance(text, str) else "",
        "prompt": prompt,
        "choices": choices,
        "loglikelihoods": likelihoods,
        "output": choices[judged.index(max(judged))],
        "reference": choices[_right(task, sample)],
        **{metric: float(sample[metric]) for metric in sample["metrics"]},
    }


def _shared(texts: list[str]) -> str:
    """What all texts begin with, in whole words; all of it where they are the same."""
    if len(set(texts)) == 1:
        return texts[0]
    end = 0
    for at, characters in enumerate(zip(*texts, strict=False)):
        if len(set(characters)) > 1:
            break
        end = at + 1 if characters[0].isspace() else end
    return texts[0][:end]


def _right(task: Any, sample: dict[str, Any]) -> int:
    """The number of the right choice, which a task gives as such or by its text; one of several."""
    right = task.doc_to_text(sample["doc"]) if task.multiple_input else sample["target"]
    right = right[0] if isinstance(right, list) else right
    return right if isinstance(right, int) else task.doc_to_choice(sample["doc"]).index(right)
