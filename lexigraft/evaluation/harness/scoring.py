"""Score a model on one task of the harness, with the harness's own metrics."""

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lm_eval
from accelerate.utils import find_executable_batch_size
from lm_eval.models.huggingface import HFLM
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.evaluation.harness.benchmarks import DATA, load_task, stored_data_sets
from lexigraft.inference.batch_sizes import default_prompts, texts_with_logits
from lexigraft.source.document_start import start_ids


def score(
    model: "CellModel",
    folder: str | Path,
    *,
    shots: int,
    by_length: bool,
    seed: int,
    draw: Callable[[str, int], list[int] | None],
) -> tuple[dict[str, float], list[dict[str, Any]], dict[str, Any]]:
    """Score a model on a task, or a group, of the harness, which was prepared in a folder.

    `shots` is the number of examples before each question (none in a task that is defined with
    none), drawn with `seed` unless the task uses its first ones. `draw`, from a task's name and its
    number of examples, returns the indices of those to score; None: all. With `by_length`, `output`
    is the choice with the highest log-likelihood per character, as for the harness's `acc_norm`,
    which tasks without it then get from that choice.

    Returns the metrics, from 0 to 1; one row per example with its question (`source`), the text
    before each choice (`prompt`), `choices`, `loglikelihoods`, `output`, `reference` and metrics;
    and the `versions` and `shots` of each task, and the numbers of `examples` and `scored` ones.
    """
    card = json.loads(Path(folder, "card.json").read_text("utf-8"))
    with stored_data_sets(Path(folder, DATA)):
        loaded = load_task(card["task"], card["definition"])
        tasks = loaded["tasks"]
        for task in tasks.values():
            if task.get_config("num_fewshot") != 0:
                task.set_config(key="num_fewshot", value=shots)
            task.set_fewshot_seed(seed=seed)
        sizes = {part: len(task.eval_docs) for part, task in tasks.items()}
        drawn = {part: draw(part, size) for part, size in sizes.items()}
        evaluated = lm_eval.evaluate(
            lm=model,
            task_dict=loaded,
            samples=None if None in drawn.values() else drawn,
            bootstrap_iters=0,
        )
    assert evaluated is not None  # it is None only in worker processes with a rank above 0
    rows = [
        _row(task, sample, by_length)
        for part, task in tasks.items()
        for sample in evaluated["samples"][part]
    ]
    metrics = {
        key.removesuffix(",none"): float(value)
        for key, value in evaluated["results"][card["task"]].items()
        if key.endswith(",none") and "_stderr" not in key
    }
    if by_length and "acc_norm" not in metrics:
        # A task that the harness scores only by log-likelihood, such as TruthfulQA's mc1.
        for row in rows:
            row["acc_norm"] = float(row["output"] == row["reference"])
        metrics["acc_norm"] = sum(row["acc_norm"] for row in rows) / len(rows)
    facts = {
        "versions": {part: evaluated["versions"][part] for part in tasks},
        "shots": {part: evaluated["n-shot"][part] for part in tasks},
        "examples": sum(sizes.values()),
        "scored": len(rows),
    }
    return metrics, rows, facts


def _row(task: Any, sample: dict[str, Any], by_length: bool) -> dict[str, Any]:
    """The row of one example; choices include any text that follows the common prompt."""
    contexts = [context for context, _ in sample["arguments"]]
    prompt = os.path.commonprefix(contexts)  # noqa: RUF071  # of characters, as intended
    if len(set(contexts)) > 1:
        prompt = re.sub(r"\S+\Z", "", prompt)  # whole words
    choices = [(context + ending)[len(prompt) :] for context, ending in sample["arguments"]]
    likelihoods = [float(value) for value, _ in sample["filtered_resps"]]
    texts = task.doc_to_choice(sample["doc"])
    lengths = [max(len(text), 1) if by_length else 1 for text in texts]
    scores = [value / length for value, length in zip(likelihoods, lengths, strict=True)]
    question = task.doc_to_text(sample["doc"])
    # The correct choice (or the first of several), given as an index or as a text.
    target = question if task.multiple_input else sample["target"]
    target = target[0] if isinstance(target, list) else target
    return {
        "id": f"{task.task_name}-{sample['doc_id']}",
        "task": task.task_name,
        "source": question if isinstance(question, str) else "",
        "prompt": prompt,
        "choices": choices,
        "loglikelihoods": likelihoods,
        "output": choices[scores.index(max(scores))],
        "reference": choices[target if isinstance(target, int) else texts.index(target)],
        **{metric: float(sample[metric]) for metric in sample["metrics"]},
    }


class CellModel(HFLM):
    """The harness's wrapper of transformers models for a cell's `model` and `tokenizer`.

    Log-likelihoods are summed in float32, whatever the model's precision, in batches of at most
    `batch_size` answers (None: the default number), or fewer if only these fit into memory.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, batch_size: int | None
    ):
        # The harness fails for a tokenizer with neither BOS nor EOS, one of which it puts before an
        # answer without a question.
        has_roles = tokenizer.bos_token is not None or tokenizer.eos_token is not None
        super().__init__(
            pretrained=model,
            tokenizer=tokenizer,
            softmax_dtype="float32",
            prefix_token_id=None if has_roles else (start_ids(tokenizer) or [0])[0],
        )
        self.max_answers = batch_size or default_prompts(model)

    def loglikelihood(self, requests, disable_tqdm=False):
        """The harness's method; without a terminal, it shows no progress."""
        return super().loglikelihood(requests, disable_tqdm or not sys.stderr.isatty())

    def _loglikelihood_tokens(self, requests, disable_tqdm=False, override_bs=None):
        """The harness's method, in batches that fit into memory."""
        longest = max((len(context) + len(answer) for _, context, answer in requests), default=1)
        longest = min(longest, self.max_length + 1)

        @find_executable_batch_size(
            starting_batch_size=texts_with_logits(self.model, longest, self.max_answers)
        )
        def answer(batch_size):
            self.batch_size_per_gpu = batch_size
            return super(CellModel, self)._loglikelihood_tokens(requests, disable_tqdm, override_bs)

        return answer()
