"""How well a cell predicts held-out text: perplexity per token, and bits per byte."""

import logging
import math
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import draw, member_sentences
from lexigraft.inference.batch_sizes import run_batches, scoring_tokens
from lexigraft.inference.likelihood import (
    Likelihood,
    likelihood_from_nats,
    score_texts,
    sum_likelihoods,
)
from lexigraft.inference.text_encoding import encode, scored_parts
from lexigraft.settings import Settings
from lexigraft.source.positions import positions_of
from lexigraft.vocabulary.token_bytes import lost_text

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


logger = logging.getLogger(__name__)


class PerplexitySettings(Settings):
    """What is scored, and how."""

    # Sentences to score, for a group from each of its languages; none: all of them. They are in
    # random order: the first run takes the first ones, as learning curves do, later runs draw.
    heldout_sentences: int | None = Field(None, ge=1)
    english_sentences: int | None = Field(None, ge=1)
    # None: each sentence is scored separately. A number: the sentences are joined and scored in
    # windows of this many tokens, as in Yamaguchi et al., or of as many as the model supports.
    window: int | None = Field(None, ge=2)
    # Maximum number of tokens in one forward pass, with at least one sentence or window; none: as
    # many as fit.
    batch_tokens: int | None = Field(None, ge=1)


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Score the held-out target-language text and the English text of the corpus.

    Perplexity is per token, as in Yamaguchi et al. and UnifyVocab, and comparable only between
    cells with the same vocabulary: a vocabulary that splits the same text into fewer tokens spreads
    the same information over fewer tokens, so its perplexity rises although nothing got worse. Bits
    per byte divide by the UTF-8 bytes of the text, which do not depend on the vocabulary. Both
    weight sentences by their length. The English figures show how the adaptation affects the source
    model's language; a corpus without English has none. A group of languages is scored by member,
    each with its own figures (`bits_per_byte_<language>` and so on); the figures without a suffix
    are those of all their sentences together.

    Sentence by sentence, every vocabulary predicts a text from the same context. With windows, a
    vocabulary that needs fewer tokens sees more sentences at once, and a sentence also depends on
    its random neighbours. The scored tokens are the same in both.

    Writes `outputs["predictions"]`: one JSON object per sentence with the `nats`, `tokens` and
    `bytes` from which the figures are computed; `test` is `heldout`, `english`, or the member of a
    group, and `id` has the sentence's line in that text, counted from 0. Raises `UserError` if
    there is no held-out text, or if the likelihood is not finite.
    """
    settings = read_settings(PerplexitySettings, job)
    corpus = job["inputs"]["corpus"]
    details: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []

    def score(name: str, test: str, texts: list[str], count: int | None) -> Likelihood:
        numbered = list(enumerate(texts))
        drawn = draw(numbered, count, job, name) if job["run"] else numbered[:count]
        texts = [text for _, text in drawn]
        if settings.window is None:
            found = score_texts(model, tokenizer, texts, batch_tokens=settings.batch_tokens)
        else:
            window = min(settings.window, positions_of(model) or settings.window)
            found = score_windows(
                model, tokenizer, texts, window=window, batch_tokens=settings.batch_tokens
            )
        if not math.isfinite(found.perplexity):
            raise UserError(
                f"{job['inputs']['cell']}: the likelihood of {name}.txt is not a finite number; "
                "training has diverged: lower its learning rate"
            )
        details[name] = {"sentences": len(texts), "characters": found.characters}
        if lost := lost_text(tokenizer, texts):
            logger.warning(
                "the tokenizer has no tokens for %.2f %% of %s.txt; this text is not scored, so "
                "bits per byte and perplexity are too low",
                100 * lost,
                name,
            )
            details[name]["lost_text"] = lost
        rows.extend(
            {"id": f"{test}-{line}", "test": test}
            | {key: getattr(own, key) for key in ("nats", "tokens", "bytes")}
            for (line, _), own in zip(drawn, found.texts, strict=True)
        )
        return found

    metrics: dict[str, float | int] = {}
    if members := member_sentences(corpus):
        scores = {
            member: score(f"members/{member}/heldout", member, texts, settings.heldout_sentences)
            for member, texts in members.items()
        }
        metrics |= _figures(sum_likelihoods(list(scores.values())))
        for member, found in scores.items():
            metrics |= _figures(found, suffix=f"_{member}")
    else:
        texts = corpus_sentences(corpus, "heldout")
        if not texts:
            raise UserError(f"{corpus}/heldout.txt: empty; give the language more text")
        metrics |= _figures(score("heldout", "heldout", texts, settings.heldout_sentences))
    if english := corpus_sentences(corpus, "english"):
        found = score("english", "english", english, settings.english_sentences)
        metrics |= _figures(found, prefix="english_")
    write_jsonl(job["outputs"]["predictions"], rows)
    return Measurement(metrics, details)


TASK = TaskKind(PerplexitySettings, evaluate, tests="heldout", measured_in_training=True)


def _figures(score: Likelihood, prefix: str = "", suffix: str = "") -> dict[str, Any]:
    found = {
        "bits_per_byte": score.bits_per_byte,
        "perplexity": score.perplexity,
        "nats_per_token": score.nats / score.tokens,
        "tokens": score.tokens,
        "bytes": score.bytes,
    }
    return {f"{prefix}{name}{suffix}": value for name, value in found.items()}


def score_windows(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    texts: Sequence[str],
    *,
    window: int,
    batch_tokens: int | None = None,
) -> Likelihood:
    """Sum the negative log-likelihood of texts that are joined and split into windows.

    Each text begins with its special token (see `text_encoding.encode`), and all are joined in
    order, so that likelihoods depend on adjacent texts. A window has `window` tokens, at least 2;
    its first token is the last one of the previous window, so that every token but the very first
    is predicted once, from the preceding tokens of its window. The special tokens are context and
    not scored. So tokens and bytes are those of `score_texts`, and only the context of a token
    differs: it includes earlier sentences, but is short at the beginning of a window.

    `batch_tokens` is the maximum number of tokens in one forward pass, with at least one window; by
    default as many as fit (`batch_sizes`). Log-probabilities are float32. `nats` is not finite if
    the model's weights are not.
    """
    import torch

    from lexigraft.inference.chunked_logits import (
        IGNORED,
        chunked_logits,
        nll_per_token,
        targets_ahead,
    )

    # Arrays, not lists: eight bytes per token instead of eighty, for tens of millions of tokens.
    ids, owners = array("i"), array("i")  # owners: the index of a token's text, -1: not scored
    counts = []
    for number, text in enumerate(encode(tokenizer, texts)):
        ids.extend(text)
        owners.extend([-1, *[number] * len(text)][: len(text)])
        counts.append(max(len(text) - 1, 0))
    streams = torch.stack([torch.frombuffer(values, dtype=torch.int32) for values in (ids, owners)])
    window = min(window, len(ids))
    rest = streams[:, (len(ids) - 1) // (window - 1) * (window - 1) :]
    # All windows have the same length, except the last, which has no padding either.
    groups = [streams.unfold(1, window, window - 1).unbind(1), (rest,) if rest.shape[1] > 1 else ()]
    most = scoring_tokens(model, window, batch_tokens)

    def length(window: torch.Tensor) -> int:
        return window.shape[1]

    def score(batch: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        tokens, numbers = torch.stack(list(batch), dim=1)  # [windows, window]
        inputs = tokens.long().to(model.device)
        labels = inputs.masked_fill(numbers.to(model.device) < 0, IGNORED)
        readout = chunked_logits(model, {"input_ids": inputs, "use_cache": False})
        return numbers, nll_per_token(readout, targets_ahead(labels, 1)).cpu().double()

    nats = torch.zeros(len(texts), dtype=torch.float64)
    with torch.no_grad():
        for windows in groups:
            for _, (numbers, own) in run_batches(windows, length, score, tokens=most):
                predicted = numbers[:, 1:]
                scored = predicted >= 0
                nats.index_add_(0, predicted[scored].long(), own[:, :-1][scored])
    return likelihood_from_nats(scored_parts(tokenizer, texts), nats.tolist(), counts)
