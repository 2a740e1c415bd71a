"""How well a cell predicts held-out text: perplexity per token, and bits per byte."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.atomic import write_jsonl
from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import draw, member_sentences, sentences
from lexigraft.inference.likelihood import Likelihood, score_texts, sum_likelihoods
from lexigraft.source.positions import positions_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class PerplexitySettings:
    """What is scored, and how.

    Attributes
    ----------
    heldout_sentences, english_sentences
        Sentences to score, of a group from each of its languages; none: all of them.
    window
        None: each sentence is scored by itself. A number: the sentences are joined and scored in
        windows of so many tokens, as in Yamaguchi et al., or of as many as the model holds.
    batch_tokens
        Tokens in one forward pass; at least one sentence or window.
    """

    heldout_sentences: int | None = None
    english_sentences: int | None = None
    window: int | None = None
    batch_tokens: int = 2048


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Score the held-out target-language text and the English text of the corpus.

    Perplexity is per token, as in Yamaguchi et al. and UnifyVocab, and compares only between cells
    with one vocabulary: one that cuts the same text into fewer tokens spreads the same information
    over fewer of them, so its perplexity rises while nothing got worse. Bits per byte divide by
    the UTF-8 bytes of the text, which no vocabulary changes. Both weight sentences by their
    length. The English figures say what the adaptation did to the language that the model came
    with; a corpus without English has none. A group of languages is scored by member, each with
    figures of its own (`bits_per_byte_<language>` and so on), and the figures without a name are
    of all their sentences together.

    Sentence by sentence, every vocabulary predicts a text from the same context. In windows, one
    that needs fewer tokens sees more sentences at once; a sentence also depends on those beside it,
    random ones. The tokens that count are the same in both.

    Writes `outputs["predictions"]`: one JSON object per sentence, its `nats`, `tokens` and `bytes`,
    of which the figures are made; `test` is `heldout`, `english`, or the member of a group, and
    `id` has the sentence's line in that text, counted from 0.

    Raises
    ------
    UserError
        There is no held-out text, or the likelihood is not a finite number.
    """
    settings = read_settings(PerplexitySettings, job)
    if settings.window is not None and settings.window < 2:
        raise UserError(f"config/tasks.yaml: task '{job['task']}': window must be 2 or more")
    corpus = job["inputs"]["corpus"]
    details: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []

    def score(name: str, test: str, texts: list[str], count: int | None) -> Likelihood:
        drawn = draw(list(enumerate(texts)), count, job, name)
        texts = [text for _, text in drawn]
        found = _score(model, tokenizer, texts, settings)
        if not math.isfinite(found.perplexity):
            raise UserError(
                f"{job['inputs']['cell']}: the likelihood of {name}.txt is no finite number; "
                "the training has diverged: lower its learning rate"
            )
        details[name] = {"sentences": len(texts), "characters": found.characters}
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
        texts = sentences(corpus, "heldout")
        if not texts:
            raise UserError(f"{corpus}/heldout.txt: empty; give it more text")
        metrics |= _figures(score("heldout", "heldout", texts, settings.heldout_sentences))
    if english := sentences(corpus, "english"):
        found = score("english", "english", english, settings.english_sentences)
        metrics |= _figures(found, prefix="english_")
    write_jsonl(job["outputs"]["predictions"], rows)
    return Measurement(metrics, details)


TASK = TaskKind(PerplexitySettings, evaluate, tests="heldout")


def _figures(score: Likelihood, prefix: str = "", suffix: str = "") -> dict[str, float | int]:
    found = {
        "bits_per_byte": score.bits_per_byte,
        "perplexity": score.perplexity,
        "nats_per_token": score.nats / score.tokens,
        "tokens": score.tokens,
        "bytes": score.bytes,
    }
    return {f"{prefix}{name}{suffix}": value for name, value in found.items()}


def _score(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    texts: list[str],
    settings: PerplexitySettings,
) -> Likelihood:
    if settings.window is None:
        return score_texts(model, tokenizer, texts, batch_tokens=settings.batch_tokens)
    from lexigraft.evaluation.windows import score_windows

    window = min(settings.window, positions_of(model) or settings.window)
    return score_windows(model, tokenizer, texts, window=window, batch_tokens=settings.batch_tokens)
