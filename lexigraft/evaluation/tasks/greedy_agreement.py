"""Whether new tokens change what a model writes: its greedy output after text of the source's.

CW2V, section 3.3: rows in the convex hull of the source rows leave it unchanged (Theorem 2).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import draw, sentences
from lexigraft.inference.generation import (
    continue_greedily,
    decode,
    end_tokens,
    padding_token,
)
from lexigraft.inference.text_encoding import encode
from lexigraft.source.model import load_model, load_tokenizer, matrix_rows, open_source

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_EXAMPLES = 5


@dataclass(frozen=True)
class GreedyAgreementSettings:
    """What is continued, and how far.

    Attributes
    ----------
    sentences
        English sentences to continue; none: all.
    prompt_tokens
        Source tokens of a sentence that are the prompt, from its first on.
    max_new_tokens
        Tokens that the source model writes after each prompt, at most.
    batch_size
        Sentences in one forward pass.
    """

    sentences: int | None = 200
    prompt_tokens: int = 16
    max_new_tokens: int = 16
    batch_size: int = 8


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Let the source model and the cell predict after every prefix of the same source tokens.

    The source model continues each prompt greedily. Both models then read prompt and continuation,
    and at every prefix of them the most likely tokens are compared. Where they are the same all
    along a continuation, the cell writes that continuation too, token by token. A new token whose
    output row is the same, bit by bit, as that of the source's choice ties with it, which Theorem 2
    allows, and counts as the same.

    `greedy_agreement` is the share of prompts whose whole continuation is the same,
    `next_token_agreement` the share of prefixes after which the most likely token is, and
    `new_token_choices` the share of prefixes after which a new token is more likely than every
    source token: zero for rows in the convex hull of the source rows. Without training the three
    tell about the initialization alone, with training about what became of English.

    A vocabulary that replaces the source's has other prefixes: it gets no metrics, and `details`
    say so. Needs memory for the source model beside the cell's.

    Raises
    ------
    UserError
        The corpus has no English sentences.
    """
    import torch

    from lexigraft.initialization.pairing import pair_vocabularies
    from lexigraft.training.store import read_card, reference

    settings = read_settings(GreedyAgreementSettings, job)
    cell = Path(job["inputs"]["cell"])
    folder = open_source(reference(cell, read_card(cell), "source")).folder
    source_tokenizer = load_tokenizer(folder)
    pair = pair_vocabularies(source_tokenizer, tokenizer, matrix_rows(folder))
    if not pair.expands:
        return Measurement(
            {},
            {"not_measured": "the vocabulary replaces the source's, whose prefixes it lacks"},
        )
    source: Any = load_model(folder, model.dtype)
    source.to(model.device)
    texts = draw(
        sentences(job["inputs"]["corpus"], "english"), settings.sentences, job, "sentences"
    )
    if not texts:
        raise UserError(
            f"{job['inputs']['corpus']}/english.txt: empty, but task '{job['task']}' continues "
            "English; give the language an `english` text or leave the task out of run_tasks"
        )
    prompts = [ids[: settings.prompt_tokens] for ids in encode(source_tokenizer, texts)]
    found = []
    new = torch.from_numpy(pair.source_of < 0).to(model.device)
    for first in range(0, len(prompts), settings.batch_size):
        batch = prompts[first : first + settings.batch_size]
        written = _continued(source, source_tokenizer, batch, settings.max_new_tokens)
        found += _compared(source, model, batch, written, new)
    same = sum(one.same for one in found)
    prefixes = sum(one.prefixes for one in found)
    changed = [place for place, one in enumerate(found) if not one.same]
    metrics = {
        "greedy_agreement": same / len(found),
        "next_token_agreement": 1 - sum(one.changed for one in found) / prefixes,
        "new_token_choices": sum(one.new for one in found) / prefixes,
    }
    details = {
        "prompts": len(found),
        "prefixes": prefixes,
        "new_tokens": len(pair.new_ids),
        "precision": str(model.dtype).removeprefix("torch."),
        "changed": _shown(
            (source, source_tokenizer), (model, tokenizer),
            [prompts[place] for place in changed[:_EXAMPLES]], settings.max_new_tokens,
        ),
    }  # fmt: skip
    return Measurement(metrics, details)


TASK = TaskKind(GreedyAgreementSettings, evaluate, tests="none")


@dataclass(frozen=True)
class _Comparison:
    """One prompt: whether its continuation is the same, and over how many prefixes what differs."""

    same: bool
    prefixes: int
    changed: int
    new: int


def _continued(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    prompts: list[list[int]],
    max_new_tokens: int,
) -> list[list[int]]:
    """What a model writes after each prompt, up to the token that ends a text, included."""
    ends = end_tokens(model, tokenizer)
    rows = continue_greedily(
        model,
        prompts,
        padding=padding_token(tokenizer),
        stop_tokens=sorted(ends),
        max_new_tokens=max_new_tokens,
    ).tolist()
    stops = [next((at for at, token in enumerate(row) if token in ends), len(row)) for row in rows]
    return [row[: stop + 1] for row, stop in zip(rows, stops, strict=True)]


def _compared(
    source: "PreTrainedModel",
    model: "PreTrainedModel",
    prompts: list[list[int]],
    written: list[list[int]],
    new: "torch.Tensor",
) -> list[_Comparison]:
    """Compare the most likely tokens after every prefix of each prompt and its continuation."""
    import torch

    texts = [prompt + row for prompt, row in zip(prompts, written, strict=True)]
    width = max(map(len, texts))
    # Padding stands behind the text, where no prefix sees it.
    padded = torch.tensor([ids + [0] * (width - len(ids)) for ids in texts], device=model.device)
    mask = torch.tensor(
        [[1] * len(ids) + [0] * (width - len(ids)) for ids in texts], device=model.device
    )
    given = {"input_ids": padded, "attention_mask": mask, "use_cache": False}
    with torch.no_grad():
        before = source(**given).logits.argmax(dim=-1)
        after = model(**given).logits.argmax(dim=-1)
    found = []
    for place, (prompt, ids) in enumerate(zip(prompts, texts, strict=True)):
        # The last token is written, so nothing need be predicted after it.
        choices, now = before[place, : len(ids) - 1], after[place, : len(ids) - 1]
        differs = (choices != now) & ~_ties(model, choices, now)
        found.append(
            _Comparison(
                same=not differs[len(prompt) - 1 :].any(),
                prefixes=len(choices),
                changed=int(differs.sum()),
                new=int((differs & new[now]).sum()),
            )
        )
    return found


def _ties(model: "PreTrainedModel", choices: "torch.Tensor", now: "torch.Tensor") -> "torch.Tensor":
    """Which choices [n] have the same output row, and bias if there is one, as before."""
    head: Any = model.get_output_embeddings()
    rows = head.weight.detach()
    equal = (rows[choices] == rows[now]).all(dim=1)
    if head.bias is None:
        return equal
    bias = head.bias.detach()
    return equal & (bias[choices] == bias[now])


def _shown(
    source: tuple["PreTrainedModel", "PreTrainedTokenizerFast"],
    cell: tuple["PreTrainedModel", "PreTrainedTokenizerFast"],
    prompts: list[list[int]],
    max_new_tokens: int,
) -> list[dict[str, str]]:
    """What both write after a few prompts, as text."""
    if not prompts:
        return []
    texts = {"prompt": decode(source[1], prompts)}
    for name, (model, tokenizer) in (("source", source), ("cell", cell)):
        texts[name] = decode(tokenizer, _continued(model, tokenizer, prompts, max_new_tokens))
    return [dict(zip(texts, row, strict=True)) for row in zip(*texts.values(), strict=True)]
