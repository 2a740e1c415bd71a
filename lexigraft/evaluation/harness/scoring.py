"""Score a model on tasks of the harness, with the harness's own metrics."""

import copy
import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lm_eval
import numpy as np
from accelerate.utils import find_executable_batch_size
from lm_eval.api.model import LM
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import normalize_gen_kwargs, postprocess_generated_text
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.errors import UserError
from lexigraft.evaluation.harness.benchmarks import DATA, HARNESS, load_task, stored_data_sets
from lexigraft.evaluation.task_kinds import Measurement, metrics_by_language
from lexigraft.evaluation.texts import draw as draw_rows
from lexigraft.inference.batch_sizes import default_prompts, texts_with_logits
from lexigraft.inference.generation import decode, generate
from lexigraft.inference.text_encoding import tokenize
from lexigraft.inference.vllm_model import VllmModel
from lexigraft.randomness import seed_from
from lexigraft.source.document_start import start_ids
from lexigraft.source.positions import positions_of

_DIALOGUE = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hello! How can I help?"},
    {"role": "user", "content": "1 + 1"},
]


def score_tests(
    model: "CellModel | GeneratingModel", job: dict[str, Any], settings: Any
) -> Measurement:
    """Score a cell on its language, or each language of a group with the task, and on English.

    `accuracy` is the harness's metric that `settings.metric` names, from 0 to 1; see
    `metrics_by_language`. Its other metrics keep their names. Writes `outputs["predictions"]`: one
    JSON object per example, see `score`; `test` is its language. Raises `UserError` if the task has
    no metric of that name.
    """
    seed = seed_from(*job["seed"], "shots")

    def draw_examples(task: str, count: int) -> list[int] | None:
        if settings.samples is None:
            return None
        return draw_rows([*range(count)], settings.samples, job, task)

    scores: dict[str, dict[str, float]] = {}
    facts: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for test, folder in job["inputs"]["benchmarks"].items():
        metrics, examples, facts[test] = score(
            model,
            folder,
            shots=settings.shots,
            by_length=settings.metric == "acc_norm",
            seed=seed,
            draw=draw_examples,
            chat=getattr(settings, "chat", False),
        )
        if settings.metric not in metrics:
            raise UserError(
                f"config/tasks.yaml: task '{job['task']}': metric '{settings.metric}' is not one "
                f"of {', '.join(metrics)}, the metrics that {HARNESS} computes for it"
            )
        scores[test] = {"accuracy": metrics.pop(settings.metric), **metrics}
        rows += [
            {**row, "id": f"{test}-{row['id']}", "test": test, "accuracy": row[settings.metric]}
            for row in examples
        ]
    write_jsonl(job["outputs"]["predictions"], rows)
    details = {
        "signature": f"{settings.metric} of {HARNESS}, {settings.shots}-shot",
        "tests": facts,
        "shots_seed": seed,
        "precision": str(model.model.dtype).removeprefix("torch."),
        "device": model.model.device.type,
    }
    return Measurement(metrics_by_language(scores), details)


def score(
    model: "CellModel | GeneratingModel",
    folder: str | Path,
    *,
    shots: int,
    by_length: bool,
    seed: int,
    draw: Callable[[str, int], list[int] | None],
    chat: bool = False,
) -> tuple[dict[str, float], list[dict[str, Any]], dict[str, Any]]:
    """Score a model on a task, or a group, of the harness, which was prepared in a folder.

    `shots` is the number of examples before each question (none in a task that is defined with
    none), drawn with `seed` unless the task uses its first ones. `draw`, from a task's name and its
    number of examples, returns the indices of those to score; None: all. With `by_length`, `output`
    is the choice with the highest log-likelihood per character, as for the harness's `acc_norm`,
    which tasks without it then get from that choice. With `chat`, the chat template is applied, and
    each example is a turn.

    Returns the metrics, from 0 to 1; one row per example with its question (`source`), the `prompt`
    (of multiple choice, the text before each choice, `choices`, and their `loglikelihoods`),
    `output`, `reference` and metrics; and the `versions` and `shots` of each task, and the numbers
    of `examples` and `scored` ones. A metric of filtered outputs is named after both, such as
    `exact_match_flexible_extract`. Raises `UserError` if the model cannot answer such a task.
    """
    card = json.loads(Path(folder, "card.json").read_text("utf-8"))
    with stored_data_sets(Path(folder, DATA)):
        loaded = load_task(card["task"], card["definition"])
        tasks = loaded["tasks"]
        for name, task in tasks.items():
            if model.output_type != task.OUTPUT_TYPE:
                raise UserError(
                    f"config/tasks.yaml: {name} of {HARNESS} has output type {task.OUTPUT_TYPE}; "
                    "use kind harness_generation for generate_until, otherwise multiple_choice"
                )
            if task.get_config("num_fewshot") != 0:
                task.set_config(key="num_fewshot", value=shots)
            task.set_fewshot_seed(seed=seed)
        sizes = {name: len(task.eval_docs) for name, task in tasks.items()}
        drawn = {name: draw(name, size) for name, size in sizes.items()}
        evaluated = lm_eval.evaluate(
            lm=model,
            task_dict=loaded,
            samples=None if None in drawn.values() else drawn,
            bootstrap_iters=0,
            apply_chat_template=chat,
            fewshot_as_multiturn=chat,
        )
    assert evaluated is not None  # it is None only in worker processes with a rank above 0
    rows: list[dict[str, Any]] = []
    for name, task in tasks.items():
        if model.output_type == "generate_until":
            rows += _generated_rows(task, evaluated["samples"][name])
        else:
            rows += [_row(task, sample, by_length) for sample in evaluated["samples"][name]]
    metrics = {
        _metric_name(*key.split(",")): float(value)
        for key, value in evaluated["results"][card["task"]].items()
        if "," in key and "_stderr" not in key
    }
    if by_length and "acc_norm" not in metrics:
        # A task that the harness scores only by log-likelihood, such as TruthfulQA's mc1.
        for row in rows:
            row["acc_norm"] = float(row["output"] == row["reference"])
        metrics["acc_norm"] = sum(row["acc_norm"] for row in rows) / len(rows)
    facts = {
        "versions": {name: evaluated["versions"][name] for name in tasks},
        "shots": {name: evaluated["n-shot"][name] for name in tasks},
        "examples": sum(sizes.values()),
        "scored": len(rows),
    }
    return metrics, rows, facts


def _metric_name(metric: str, output_filter: str) -> str:
    """The name of a metric of the outputs of one of the harness's filters."""
    return metric if output_filter == "none" else f"{metric}_{output_filter.replace('-', '_')}"


def _generated_rows(task: Any, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The row of each example; the harness has a sample for each filter of its output.

    A metric of several parts, such as the instructions of a prompt, is their mean.
    """
    rows: dict[int, dict[str, Any]] = {}
    for sample in samples:
        target = sample["target"]
        row = {
            "id": f"{task.task_name}-{sample['doc_id']}",
            "task": task.task_name,
            "source": task.doc_to_text(sample["doc"]),
            "prompt": sample["arguments"][0][0],
            "output": sample["resps"][0][0],
            "reference": target if isinstance(target, str) else "",
        }
        rows.setdefault(sample["doc_id"], row).update(
            {
                _metric_name(metric, sample["filter"]): float(np.mean(sample[metric]))
                for metric in sample["metrics"]
            }
        )
    return [*rows.values()]


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


def check_chat_template(
    tokenizer: PreTrainedTokenizerFast, source_tokenizer: PreTrainedTokenizerFast
) -> None:
    """Check that a dialogue has the same text and special tokens with both chat templates.

    Raises `UserError` if the template is missing, or the text, or its special tokens in order,
    differ: the model would not recognize the turns that it was trained on.
    """
    if tokenizer.chat_template is None:
        raise UserError(
            "chat: the tokenizer has no chat template; set chat of the task to false in "
            "config/tasks.yaml, or choose a chat model"
        )
    added = {token.content for token in source_tokenizer.added_tokens_decoder.values()}

    def dialogue(writer: PreTrainedTokenizerFast) -> tuple[Any, list[str]]:
        text: Any = writer.apply_chat_template(
            _DIALOGUE, tokenize=False, add_generation_prompt=True
        )
        tokens = writer.convert_ids_to_tokens(next(tokenize(writer, [text])))
        return text, [token for token in tokens if token in added]

    pairs = zip(dialogue(tokenizer), dialogue(source_tokenizer), strict=True)
    for name, (actual, expected) in zip(("text", "special tokens"), pairs, strict=True):
        if actual != expected:
            raise UserError(
                f"chat: the {name} of a dialogue: {actual!r}, but with the source's tokenizer: "
                f"{expected!r}; keep its chat template and special tokens in the vocabulary"
            )


class CellModel(HFLM):
    """The harness's wrapper of transformers models for a cell's `model` and `tokenizer`.

    Log-likelihoods are summed in float32, whatever the model's precision, in batches of at most
    `batch_size` answers (None: the default number), or fewer if only these fit into memory.
    """

    output_type = "multiple_choice"

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, batch_size: int | None
    ):
        tokenizer = copy.deepcopy(tokenizer)  # the harness gives it a padding token
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


class GeneratingModel(LM):
    """The harness's interface to greedy generation by a cell's `model`, with any engine.

    Prompts are tokenized, and truncated on the left if they leave no room for an answer, as by the
    harness's HFLM. `counts` has the numbers of `unfinished_outputs` and `truncated_prompts`.
    """

    output_type = "generate_until"
    tokenizer_name = ""  # of the harness's cache of requests, which is not used

    def __init__(
        self,
        model: PreTrainedModel | VllmModel,
        tokenizer: PreTrainedTokenizerFast,
        batch_size: int | None,
        max_new_tokens: int | None = None,
    ):
        super().__init__()
        self.model, self.tokenizer, self.batch_size = model, tokenizer, batch_size
        self.max_new_tokens = max_new_tokens  # None: as the task defines
        self.counts = Counter(unfinished_outputs=0, truncated_prompts=0)

    # The harness's: the text of turns, with the first one's system prompt where templates allow it.
    apply_chat_template = HFLM.apply_chat_template
    chat_template_args: Mapping[str, Any] = {}
    loglikelihood = loglikelihood_rolling = None  # type: ignore[assignment]

    def generate_until(self, requests, disable_tqdm=False):
        """The harness's method: the answer to each request, up to a stop string.

        Raises `UserError` if a task samples its answers.
        """
        prompts: dict[str, dict[str, list[int]]] = defaultdict(dict)
        for index, request in enumerate(requests):
            context, options = request.args
            has_start = context.startswith(self.tokenizer.bos_token or "\0")
            [token_ids] = tokenize(self.tokenizer, [context], special=not has_start)
            prompts[json.dumps(options)][str(index)] = token_ids
        answers: dict[str, str] = {}
        for encoded_options, rows in prompts.items():
            options = normalize_gen_kwargs(json.loads(encoded_options))
            if options.get("do_sample"):
                raise UserError(
                    f"config/tasks.yaml: {requests[0].task_name} of {HARNESS} samples its answers; "
                    "kind harness_generation is greedy"
                )
            new_tokens = self.max_new_tokens or options["max_gen_toks"]
            room = max((positions_of(self.model) or 0) - new_tokens, 0)  # 0: no limit, or too short
            self.counts["truncated_prompts"] += sum(len(ids) > room > 0 for ids in rows.values())
            generated = generate(
                self.model,
                self.tokenizer,
                {index: ids[-room:] for index, ids in rows.items()},
                max_new_tokens=new_tokens,
                batch_size=self.batch_size,
                stop=options["until"],
            )
            for index, answer in generated.items():
                self.counts["unfinished_outputs"] += not answer.finished
                # White space around an answer counts: IFEval counts its paragraphs.
                [text] = decode(self.tokenizer, [answer.tokens])
                answers[index] = postprocess_generated_text(text, options["until"], None)
        return [answers[str(index)] for index in range(len(requests))]
