"""Whether new tokens change a model's greedy output after text in source tokens.

CW2V, section 3.3: rows in the convex hull of the source rows leave it unchanged (Theorem 2).
"""

import math
from typing import Any

from pydantic import Field

from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.evaluation.costs import generation
from lexigraft.evaluation.metric_kinds import MetricKind
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import draw
from lexigraft.inference.text_encoding import encode
from lexigraft.settings import Settings


class GreedyAgreementSettings(Settings):
    """Which sentences are continued, and how far; config/tasks.yaml explains the keys."""

    sentences: int | None = Field(200, ge=1)
    prompt_tokens: int = Field(16, ge=1)
    max_new_tokens: int = Field(16, ge=1)
    batch_size: int | None = Field(None, ge=1)


# Next tokens after the prefixes of a prompt and of its continuation by the source model: whether
# the cell generates the same continuation; the number of compared prefixes; after how many of these
# the most likely token differs; and after how many it is a new token.
Agreement = tuple[bool, int, int, int]


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Compare the next tokens of the source model and the cell after the same source tokens.

    The source model continues each prompt greedily. Both models then read prompt and continuation,
    and the most likely tokens after every prefix are compared. A new token whose output row equals,
    bit by bit, that of the source's choice ties with it, which Theorem 2 allows.

    `greedy_agreement` is the share of prompts whose whole continuation is the same,
    `next_token_agreement` the share of prefixes after which the most likely token is the same, and
    `new_token_choices` the share of prefixes after which it is a new token: zero for rows in the
    convex hull of the source rows. A vocabulary that replaces the source's gets no metrics. Needs
    memory for both models. Raises `UserError` if the corpus has no English sentences.
    """
    from lexigraft.inference.batch_sizes import run_batches, texts_with_logits
    from lexigraft.initialization.pairing import pair_vocabularies
    from lexigraft.source.matrices import matrix_rows
    from lexigraft.source.model import load_model, open_source

    settings = read_settings(GreedyAgreementSettings, job)
    prepared = open_source(job["inputs"]["source"])
    folder, source_tokenizer = prepared.folder, prepared.tokenizer()
    pair = pair_vocabularies(source_tokenizer, tokenizer, matrix_rows(folder))
    if not pair.expands:
        why = "the vocabulary replaces the source's and does not have its prefixes"
        return Measurement({}, {"not_measured": why})
    source: Any = load_model(folder, model.dtype, model.device)
    corpus, length = job["inputs"]["corpus"], settings.max_new_tokens
    texts = draw(corpus_sentences(corpus, "english"), settings.sentences, job, "sentences")
    if not texts:
        raise UserError(
            f"{corpus}/english.txt: empty, but task '{job['task']}' continues English; give the "
            "language an `english` text or remove the task from run_tasks"
        )
    prompts = [ids[: settings.prompt_tokens] for ids in encode(source_tokenizer, texts)]

    def compare(batch: Any) -> list[Agreement]:
        continuations = continue_texts(source, source_tokenizer, list(batch), length)
        return compare_next_tokens(source, model, batch, continuations, pair.source_of < 0)

    max_texts = texts_with_logits(model, max(map(len, prompts)) + length, settings.batch_size)
    batches = run_batches(prompts, len, compare, max_tokens=math.inf, max_items=max_texts)
    agreements = [agreement for _, compared in batches for agreement in compared]
    same, prefixes, changed, new = map(sum, zip(*agreements, strict=True))
    metrics = {
        "greedy_agreement": same / len(agreements),
        "next_token_agreement": 1 - changed / prefixes,
        "new_token_choices": new / prefixes,
    }
    details = {
        "prompts": len(prompts),
        "prefixes": prefixes,
        "new_tokens": len(pair.new_ids),
        "precision": str(model.dtype).removeprefix("torch."),
    }
    return Measurement(metrics, details)


def continue_texts(
    model: Any, tokenizer: Any, prompts: list[list[int]], max_new_tokens: int
) -> list[list[int]]:
    """The greedy continuation of each prompt, up to and including the token that ends a text."""
    from lexigraft.inference.generation import continue_greedily, end_tokens, padding_token

    ends = end_tokens(model, tokenizer)
    rows = continue_greedily(
        model,
        prompts,
        padding=padding_token(tokenizer),
        stop_tokens=sorted(ends),
        max_new_tokens=max_new_tokens,
    ).tolist()
    stops = [next((i for i, token in enumerate(row) if token in ends), len(row)) for row in rows]
    return [row[: stop + 1] for row, stop in zip(rows, stops, strict=True)]


def compare_next_tokens(
    source: Any, model: Any, prompts: Any, continuations: Any, is_new: Any
) -> list[Agreement]:
    """Compare two models on prompts and their continuations; `is_new` [n_target] marks tokens."""
    import torch

    from lexigraft.inference.likelihood import pad_batch

    texts = [prompt + row for prompt, row in zip(prompts, continuations, strict=True)]
    # Padding is after the text, where no prefix attends to it.
    padded = pad_batch(texts, texts)
    inputs = {name: padded[name].to(model.device) for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        all_source_choices = source(**inputs, use_cache=False).logits.argmax(dim=-1)
        all_choices = model(**inputs, use_cache=False).logits.argmax(dim=-1)
    head, new = model.get_output_embeddings(), torch.from_numpy(is_new).to(model.device)
    agreements = []
    for prompt, ids, source_choices, choices in zip(
        prompts, texts, all_source_choices, all_choices, strict=True
    ):
        # No prediction is needed after the last token.
        source_choices, choices = source_choices[: len(ids) - 1], choices[: len(ids) - 1]
        ties = (head.weight[source_choices] == head.weight[choices]).all(dim=1)
        if head.bias is not None:
            ties &= head.bias[source_choices] == head.bias[choices]
        differs = (source_choices != choices) & ~ties
        is_same = not differs[len(prompt) - 1 :].any()
        n_new = int((differs & new[choices]).sum())
        agreements.append((is_same, len(choices), int(differs.sum()), n_new))
    return agreements


TASK = TaskKind(
    GreedyAgreementSettings,
    evaluate,
    tests="none",
    cost=lambda settings, sizes: generation(
        settings.sentences or sizes.english.sentences,
        settings.prompt_tokens,
        settings.max_new_tokens,
    ),
    metrics=(MetricKind("greedy_agreement", "greedy output unchanged", decimals=3),),
)
