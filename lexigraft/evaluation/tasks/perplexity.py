"""How well a cell predicts held-out text: perplexity per token, and bits per byte."""

import logging
import math
from typing import Any

from pydantic import Field, model_validator

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.evaluation.costs import TaskSizes, Work
from lexigraft.evaluation.metric_kinds import MetricKind, Rows
from lexigraft.evaluation.task_kinds import ENGLISH, Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import draw, member_sentences
from lexigraft.inference.text_encoding import encode
from lexigraft.settings import KeyedError, Settings
from lexigraft.source.positions import positions_of

logger = logging.getLogger(__name__)


class PerplexitySettings(Settings):
    """What is scored, and how; config/tasks.yaml explains the keys."""

    # Sentences are in random order: the first run takes the first ones, as learning curves do.
    heldout_sentences: int | None = Field(None, ge=1)
    english_sentences: int | None = Field(None, ge=1)
    window: int | None = Field(None, ge=2)
    score_start: bool = False

    @model_validator(mode="after")
    def _has_context_for_starts(self) -> "PerplexitySettings":
        if self.score_start and self.window is None:
            raise KeyedError("score_start", "needs a window; a separate text has nothing before it")
        return self


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Score the held-out target-language text and the English text of the corpus.

    Perplexity is per token, as in Yamaguchi et al. and UnifyVocab, and comparable only between
    cells with the same vocabulary: one that needs fewer tokens spreads the same information over
    fewer tokens, so its perplexity rises although nothing got worse. Bits per byte do not depend on
    the vocabulary; nor, for one source model, does `source_perplexity`, the same nats per token of
    the source's tokenizer (UnifyVocab, Table 4). A group is scored by member
    (`bits_per_byte_<language>`), and all their sentences together.

    Writes `outputs["predictions"]`: one JSON object per sentence with its `nats`, `tokens`,
    `source_tokens` and `bytes`; `test` is `heldout`, `english`, or the member of a group, and `id`
    has the sentence's line in that text, counted from 0. Raises `UserError` if there is no held-out
    text, or if the likelihood is not finite.
    """
    from lexigraft.inference.likelihood import score_texts, score_windows
    from lexigraft.source.model import open_tokenizer
    from lexigraft.vocabulary.token_bytes import lost_text

    settings = read_settings(PerplexitySettings, job)
    corpus, source_tokenizer = job["inputs"]["corpus"], open_tokenizer(job["inputs"]["source"])
    details: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []

    def score(name: str, test: str, texts: list[str], count: int | None) -> None:
        numbered = list(enumerate(texts))
        drawn = draw(numbered, count, job, name) if job["run"] else numbered[:count]
        texts = [text for _, text in drawn]
        if settings.window is None:
            likelihood = score_texts(model, tokenizer, texts)
        else:
            window = min(settings.window, positions_of(model) or settings.window)
            options: Any = {"window": window, "score_start": settings.score_start}
            likelihood = score_windows(model, tokenizer, texts, **options)
        if not math.isfinite(likelihood.perplexity):
            raise UserError(
                f"{job['inputs']['cell']}: the likelihood of {name}.txt is not a finite number; "
                "training has diverged: lower its learning rate"
            )
        details[name] = {"sentences": len(texts), "characters": likelihood.characters}
        if lost := lost_text(tokenizer, texts):
            logger.warning(
                "the tokenizer has no tokens for %.2f %% of %s.txt; this text is not scored, so "
                "bits per byte and perplexity are too low",
                100 * lost,
                name,
            )
            details[name]["lost_text"] = lost
        # Like the cell's tokens, without the one that begins a text.
        source_tokens = [max(len(ids) - 1, 0) for ids in encode(source_tokenizer, texts)]
        for (line, _), sentence, n in zip(drawn, likelihood.texts, source_tokens, strict=True):
            values = {key: getattr(sentence, key) for key in ("nats", "tokens", "bytes")}
            rows.append({"id": f"{test}-{line}", "test": test, **values, "source_tokens": n})

    members = member_sentences(corpus)
    for test, texts in (members or {"heldout": corpus_sentences(corpus, "heldout")}).items():
        if not texts:
            raise UserError(f"{corpus}/heldout.txt: empty; give the language more text")
        name = f"members/{test}/heldout" if members else test
        score(name, test, texts, settings.heldout_sentences)
    metrics = _figures(rows)
    for member in members:
        metrics |= _figures(rows, member, suffix=f"_{member}")
    if english := corpus_sentences(corpus, ENGLISH):
        score(ENGLISH, ENGLISH, english, settings.english_sentences)
        metrics |= _figures(rows, ENGLISH, prefix=f"{ENGLISH}_")
    write_jsonl(job["outputs"]["predictions"], rows)
    return Measurement(metrics, details)


def _figures(
    rows: Rows, test: str | None = None, prefix: str = "", suffix: str = ""
) -> dict[str, Any]:
    """The metrics of all sentences, or those of one test."""
    from lexigraft.inference.likelihood import Likelihood

    names = ("nats", "tokens", "bytes", "source_tokens")
    of_test = [row for row in rows if test in (None, row["test"])]
    nats, tokens, n_bytes, source_tokens = (sum(row[name] for row in of_test) for name in names)
    score = Likelihood(nats, tokens, n_bytes)
    figures = {
        "bits_per_byte": score.bits_per_byte,
        "perplexity": score.perplexity,
        "source_perplexity": Likelihood(nats, source_tokens).perplexity,
        "nats_per_token": nats / tokens,
        "tokens": tokens,
        "bytes": n_bytes,
    }
    return {f"{prefix}{name}{suffix}": value for name, value in figures.items()}


def _cost(settings: PerplexitySettings, sizes: TaskSizes) -> Work:
    heldout = sizes.heldout.tokens_of(settings.heldout_sentences)
    english = sizes.english.tokens_of(settings.english_sentences)
    return Work("perplexity", scored_tokens=sizes.runs * (heldout + english))


def _metric(name: str, title: str, decimals: int, unit: str) -> MetricKind:
    def total(totals: Any) -> Any:
        """The metric of summed nats and units: [..., 2] -> [...]; missing without text."""
        import numpy as np

        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mean = np.where(totals[..., 1] > 0, totals[..., 0] / totals[..., 1], np.nan)
            if name == "bits_per_byte":
                return mean / math.log(2)
            return np.exp(mean) if name.endswith("perplexity") else mean

    return MetricKind(
        name,
        title,
        higher_is_better=False,
        decimals=decimals,
        statistics=lambda rows, details: [[row["nats"], row[unit]] for row in rows],
        total=total,
        pools_languages=True,
    )


TASK = TaskKind(
    PerplexitySettings,
    evaluate,
    tests="heldout",
    cost=_cost,
    primary_metric="bits_per_byte",
    metrics=(
        _metric("bits_per_byte", "bits per byte", 3, "bytes"),
        _metric("perplexity", "perplexity", 1, "tokens"),
        _metric("source_perplexity", "perplexity per source token", 1, "source_tokens"),
        _metric("nats_per_token", "nats per token", 3, "tokens"),
    ),
    measured_in_training=True,
)
