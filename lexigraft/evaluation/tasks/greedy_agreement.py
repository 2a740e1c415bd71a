"""Whether new tokens change a model's greedy output after text in source tokens.

CW2V, section 3.3: rows in the convex hull of the source rows leave it unchanged (Theorem 2).
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import draw
from lexigraft.inference.batch_sizes import rows_with_logits, run_batches
from lexigraft.inference.generation import continue_greedily, decode, end_tokens, padding_token
from lexigraft.inference.likelihood import pad_batch
from lexigraft.inference.text_encoding import encode
from lexigraft.settings import Settings
from lexigraft.source.model import load_model, matrix_rows, open_source

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_EXAMPLES = 5


class GreedyAgreementSettings(Settings):
    """Which sentences are continued, and how far."""

    # English sentences to continue; none: all.
    sentences: int | None = Field(200, ge=1)
    # Number of source tokens at the start of a sentence that form the prompt.
    prompt_tokens: int = Field(16, ge=1)
    # Maximum number of tokens that the source model generates after each prompt.
    max_new_tokens: int = Field(16, ge=1)
    # Maximum number of prompts continued together; none: as many as fit.
    batch_size: int | None = Field(None, ge=1)


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Compare the next tokens of the source model and the cell after the same source tokens.

    The source model continues each prompt greedily. Both models then read prompt and continuation,
    and the most likely tokens after every prefix are compared. If they agree throughout a
    continuation, the cell generates the same continuation, token by token. A new token whose output
    row equals, bit by bit, that of the source's choice ties with it, which Theorem 2 allows, and
    counts as the same.

    `greedy_agreement` is the share of prompts whose whole continuation is the same,
    `next_token_agreement` is the share of prefixes after which the most likely token is the same,
    and `new_token_choices` is the share of prefixes after which a new token is more likely than
    every source token: zero for rows in the convex hull of the source rows. Without training, the
    three measure only the initialization; with training, they measure how English has changed.

    A vocabulary that replaces the source's has other prefixes: it gets no metrics, and `details`
    say so. Needs memory for the source model in addition to the cell's. Raises `UserError` if the
    corpus has no English sentences.
    """
    import torch

    from lexigraft.initialization.pairing import pair_vocabularies

    settings = read_settings(GreedyAgreementSettings, job)
    prepared = open_source(job["inputs"]["source"])
    folder, source_tokenizer = prepared.folder, prepared.tokenizer()
    pair = pair_vocabularies(source_tokenizer, tokenizer, matrix_rows(folder))
    if not pair.expands:
        why = "the vocabulary replaces the source's and does not have its prefixes"
        return Measurement({}, {"not_measured": why})
    source: Any = load_model(folder, model.dtype, model.device)
    corpus = job["inputs"]["corpus"]
    texts = draw(corpus_sentences(corpus, "english"), settings.sentences, job, "sentences")
    if not texts:
        raise UserError(
            f"{corpus}/english.txt: empty, but task '{job['task']}' continues English; give the "
            "language an `english` text or remove the task from run_tasks"
        )
    prompts = [ids[: settings.prompt_tokens] for ids in encode(source_tokenizer, texts)]
    found = []
    new = torch.from_numpy(pair.source_of < 0).to(model.device)

    def compare(given: Sequence[list[int]]) -> list[_Comparison]:
        batch = list(given)
        written = _continue(source, source_tokenizer, batch, settings.max_new_tokens)
        return _compare(source, model, batch, written, new)

    longest = max(map(len, prompts)) + settings.max_new_tokens
    most = rows_with_logits(model, longest, settings.batch_size)
    for _, compared in run_batches(prompts, len, compare, tokens=math.inf, most=most):
        found += compared
    prefixes = sum(one.prefixes for one in found)
    metrics = {
        "greedy_agreement": sum(one.same for one in found) / len(found),
        "next_token_agreement": 1 - sum(one.changed for one in found) / prefixes,
        "new_token_choices": sum(one.new for one in found) / prefixes,
    }
    shown = [prompt for prompt, one in zip(prompts, found, strict=True) if not one.same][:_EXAMPLES]
    changed: list[dict[str, str]] = []
    if shown:
        columns = {"prompt": decode(source_tokenizer, shown)}
        for name, one, own in (("source", source, source_tokenizer), ("cell", model, tokenizer)):
            columns[name] = decode(own, _continue(one, own, shown, settings.max_new_tokens))
        rows = zip(*columns.values(), strict=True)
        changed = [dict(zip(columns, row, strict=True)) for row in rows]
    details = {
        "prompts": len(found),
        "prefixes": prefixes,
        "new_tokens": len(pair.new_ids),
        "precision": str(model.dtype).removeprefix("torch."),
        "changed": changed,
    }
    return Measurement(metrics, details)


TASK = TaskKind(GreedyAgreementSettings, evaluate, tests="none")


class _Comparison(NamedTuple):
    same: bool  # whether the continuation of a prompt is the same
    prefixes: int  # number of compared prefixes, of which:
    changed: int  # number after which the most likely token differs
    new: int  # number after which it is a new token


def _continue(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    prompts: list[list[int]],
    max_new_tokens: int,
) -> list[list[int]]:
    """The greedy continuation of each prompt, up to and including the token that ends a text."""
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


def _compare(
    source: "PreTrainedModel",
    model: "PreTrainedModel",
    prompts: list[list[int]],
    written: list[list[int]],
    new: "torch.Tensor",
) -> list[_Comparison]:
    """Compare the most likely tokens after every prefix of each prompt and its continuation."""
    import torch

    texts = [prompt + row for prompt, row in zip(prompts, written, strict=True)]
    # Padding is after the text, where no prefix attends to it.
    padded = pad_batch(texts, texts)
    given = {name: padded[name].to(model.device) for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        before = source(**given, use_cache=False).logits.argmax(dim=-1)
        after = model(**given, use_cache=False).logits.argmax(dim=-1)
    found = []
    for prompt, ids, choices, now in zip(prompts, texts, before, after, strict=True):
        # No prediction is needed after the last token.
        choices, now = choices[: len(ids) - 1], now[: len(ids) - 1]
        differs = (choices != now) & ~_ties(model, choices, now)
        same = not differs[len(prompt) - 1 :].any()
        changed, chosen = int(differs.sum()), int((differs & new[now]).sum())
        found.append(_Comparison(same, len(choices), changed, chosen))
    return found


def _ties(model: "PreTrainedModel", choices: "torch.Tensor", now: "torch.Tensor") -> "torch.Tensor":
    """Which new choices [n] have the same output row (and bias, if any) as the source's."""
    head: Any = model.get_output_embeddings()
    rows = head.weight.detach()
    equal = (rows[choices] == rows[now]).all(dim=1)
    if head.bias is None:
        return equal
    bias = head.bias.detach()
    return equal & (bias[choices] == bias[now])
