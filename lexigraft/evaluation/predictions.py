"""Generated texts with what they are compared with, row by row: what generation tasks share."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.atomic import write_jsonl
from lexigraft.evaluation.new_tokens import count_new, new_ids
from lexigraft.inference.generation import generate
from lexigraft.inference.vllm_model import VllmModel
from lexigraft.provenance import sha256_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

Row = dict[str, Any]


def predict(
    model: "PreTrainedModel | VllmModel",
    tokenizer: "PreTrainedTokenizerFast",
    job: dict[str, Any],
    examples: list[dict[str, str]],
    prompts: list[str],
    *,
    max_new_tokens: int,
    batch_size: int,
    stop: Sequence[str] = ("\n",),
    beams: int = 1,
) -> list[Row]:
    """Continue each prompt up to a stop string, greedily or by beams; resumed when interrupted.

    Parameters
    ----------
    examples
        `{"id", "source", "reference"}` of each prompt.
    stop
        Strings at which an output ends: by default at its first line feed.
    beams
        Candidates of a beam search; 1 is greedy.

    Returns
    -------
    list
        A row per example: its keys, `output`, counts of the prompt's and the output's tokens and
        of the new ones among them, decoding `steps`, and whether the model `finished` by itself.
    """
    names = [example["id"] for example in examples]
    generated = generate(
        model,
        tokenizer,
        dict(zip(names, prompts, strict=True)),
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
        partial=_partial(job),
        identity=f"{sha256_of(Path(job['inputs']['cell']) / 'card.json')} {job.get('code')} "
        f"{model.dtype} {engine(model)}",
        stop=stop,
        beams=beams,
    )
    new = new_ids(job["inputs"]["cell"])
    rows = []
    for example, ids in zip(examples, tokenizer(prompts)["input_ids"], strict=True):
        output = generated[example["id"]]
        rows.append(
            {
                "id": example["id"],
                "source": example["source"],
                "output": output.text,
                "reference": example["reference"],
                "prompt_tokens": len(ids),
                "output_tokens": len(output.tokens),
                "new_prompt_tokens": count_new(ids, new),
                "new_output_tokens": count_new(output.tokens, new),
                "steps": output.steps,
                "finished": output.finished,
            }
        )
    return rows


def keep(rows: list[Row], job: dict[str, Any]) -> None:
    """Write `outputs["predictions"]`, one JSON object a row; what was kept to resume is removed."""
    write_jsonl(job["outputs"]["predictions"], rows)
    _partial(job).unlink()


def token_metrics(rows: list[Row]) -> dict[str, float | int]:
    """Shares of new tokens in prompts and outputs (paper 000, Appendix E), and output lengths."""
    totals = {
        name: sum(row[name] for row in rows)
        for name in ("prompt_tokens", "output_tokens", "new_prompt_tokens", "new_output_tokens")
    }
    # Where nothing was generated the shares are zero, not undefined.
    output_tokens = max(totals["output_tokens"], 1)
    return {
        "new_token_share_output": totals["new_output_tokens"] / output_tokens,
        "new_token_share_input": totals["new_prompt_tokens"] / totals["prompt_tokens"],
        "output_characters_per_token": sum(len(row["output"]) for row in rows) / output_tokens,
        "output_tokens": totals["output_tokens"],
        "samples": len(rows),
    }


def conditions(rows: list[Row], model: "PreTrainedModel | VllmModel") -> dict[str, Any]:
    """How the outputs came about, for a record's details."""
    return {
        "empty_outputs": sum(not row["output"] for row in rows),
        "unfinished_outputs": sum(not row["finished"] for row in rows),
        "precision": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
        "engine": engine(model),
    }


def engine(model: "PreTrainedModel | VllmModel") -> str:
    """What generates: transformers, whose version every record names, or vLLM with its version."""
    return model.name if isinstance(model, VllmModel) else "transformers"


def _partial(job: dict[str, Any]) -> Path:
    return Path(job["outputs"]["folder"]) / "predictions.partial.jsonl"
