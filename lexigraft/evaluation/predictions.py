"""Predictions of generation tasks: one row per generated text, with its reference.

A prompt that occurs in several runs of a task is generated once. Decoding is greedy or a beam
search, so equal prompts have equal outputs; known outputs are reused from earlier runs.
"""

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.artifacts.completion import input_checksum
from lexigraft.artifacts.records import read_jsonl
from lexigraft.evaluation.task_kinds import Measurement
from lexigraft.evaluation.texts import new_token_ids
from lexigraft.inference.generation import generate
from lexigraft.inference.text_encoding import encode
from lexigraft.inference.vllm_model import VllmModel

Row = dict[str, Any]
logger = logging.getLogger(__name__)

PREDICTIONS = "predictions.jsonl"
# The keys of a prediction that depend only on the generated text, not on the run.
_GENERATED = ("output", "output_tokens", "new_output_tokens", "steps", "finished")


def predict_and_score(
    model: PreTrainedModel | VllmModel,
    tokenizer: PreTrainedTokenizerFast,
    job: dict[str, Any],
    settings: Any,
    examples: list[Row],
    prompts: list[str],
    score: Callable[[list[Row]], tuple[dict[str, Any], dict[str, Any]]],
) -> Measurement:
    """Continue each prompt up to a line feed, score the outputs and write predictions.

    Outputs of equal prompts are reused from runs of this task with a lower number, if everything
    that determines them is the same and runs are redrawn: never from a higher number, so that the
    order in which runs are computed makes no difference.

    Each prompt has an example, with `id`, `source`, `reference` and any other keys. A row of
    `outputs["predictions"]` has these keys, `output`, numbers of tokens, whether the model
    `finished` before the token limit, `generation`, a digest of the prompt and of everything that
    determines the output, and whether the output is `reused`.

    `score` returns metrics and details for the rows, to which it may add scores. Added to these are
    the shares of new tokens in prompts and outputs (Yamaguchi et al., Appendix E), zero if nothing
    was generated, and how the outputs were generated.
    """
    decoding: dict[str, Any] = {
        "max_new_tokens": settings.max_new_tokens,
        "stop": ["\n"],
        "skip_empty": getattr(settings, "skip_empty_lines", False),
        "beams": getattr(settings, "beams", 1),
        "beyond_context": getattr(settings, "beyond_context", False),
    }
    # The version of transformers is in every record.
    engine = model.name if isinstance(model, VllmModel) else "transformers"
    paths = [job["inputs"].get(name) for name in ("cell", "source", "tokenizer")]
    checksums = [input_checksum(path) for path in dict.fromkeys(filter(None, paths))]
    identity = json.dumps([checksums, job.get("versions"), str(model.dtype), engine, decoding])
    keys = [hashlib.sha256(f"{identity} {prompt}".encode()).hexdigest()[:16] for prompt in prompts]
    new = new_token_ids(job["inputs"]["tokenizer"])
    texts = dict(zip(keys, prompts, strict=True))
    reused: dict[str, Row] = {}
    for number in range(job["run"] if getattr(settings, "redraw", True) else 0):
        run = Path(job["outputs"]["folder"]).with_name(f"run-{number}")
        for row in read_jsonl(run / PREDICTIONS):
            if row.get("generation") in texts:
                reused[row["generation"]] = {name: row[name] for name in _GENERATED}
    logger.info("%d of %d prompts are reused", len(reused), len(texts))
    generated = generate(
        model,
        tokenizer,
        {key: text for key, text in texts.items() if key not in reused},
        batch_size=settings.batch_size,
        **decoding,
    )
    outputs = dict(reused)
    for key, text in generated.items():
        outputs[key] = {
            "output": text.text,
            "output_tokens": len(text.tokens),
            "new_output_tokens": sum(token in new for token in text.tokens),
            "steps": text.steps,
            "finished": text.finished,
        }
    rows = [
        {
            **example,
            "prompt_tokens": len(ids),
            "new_prompt_tokens": sum(token in new for token in ids),
            **outputs[key],
            "generation": key,
            **({"reused": True} if key in reused else {}),
        }
        for example, key, ids in zip(examples, keys, encode(tokenizer, prompts), strict=True)
    ]
    metrics, details = score(rows)
    write_jsonl(job["outputs"]["predictions"], rows)
    names = ("prompt_tokens", "new_prompt_tokens", "output_tokens", "new_output_tokens")
    tokens = {name: sum(row[name] for row in rows) for name in names}
    n_outputs = max(tokens["output_tokens"], 1)
    metrics = metrics | {
        "new_token_share_output": tokens["new_output_tokens"] / n_outputs,
        "new_token_share_input": tokens["new_prompt_tokens"] / tokens["prompt_tokens"],
        "output_characters_per_token": sum(len(row["output"]) for row in rows) / n_outputs,
        "output_tokens": tokens["output_tokens"],
        "samples": len(rows),
    }
    details = details | {
        "empty_outputs": sum(not row["output"] for row in rows),
        "unfinished_outputs": sum(not row["finished"] for row in rows),
        "reused_outputs": sum(row.get("reused", False) for row in rows),
        "precision": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
        "engine": engine,
    }
    return Measurement(metrics, details)
