"""The headline: what a study found, in plain sentences with units, computed from its numbers."""

from dataclasses import dataclass
from typing import Any

from lexigraft.report.metrics import metric
from lexigraft.report.names import listed
from lexigraft.report.study import StudyResults as Study
from lexigraft.report.table import number

# Below this many training tokens a cell has seen less than a hundredth of the published setting
# (30,000 sentences, two epochs: several million tokens).
_SMALL_BUDGET = 100_000

# Vocabularies up to which each has a sentence of its own.
_MOST_SENTENCES = 2


@dataclass(frozen=True)
class Finding:
    """One sentence about one language; `kind` says what it is about."""

    language: str
    kind: str
    text: str


def findings(study: Study, numbers: dict[str, Any]) -> list[Finding]:
    """Sentences from `headline`'s numbers, at most one of a kind per language and task."""
    found = []
    for language, own in numbers.items():
        for text in _tokens_sentences(own["vocabularies"]):
            found.append(Finding(language, "tokens", text))
        for score in own["scores"]:
            if text := _score_sentence(score):
                found.append(Finding(language, score["task"], text))
        for speed in own["speed_up"]:
            text = _speed_sentence(speed, several=len(own["speed_up"]) > 1)
            found.append(Finding(language, "speed", text))
    return found


def caveats(study: Study) -> list[str]:
    """What a reader must not conclude, from what the cards say."""
    found = []
    if study.scores.empty:
        return study.notes
    seeds = len(study.seeds)
    if seeds < 2:
        found.append("One seed: no standard deviation can be given, and small differences may be "
                     "chance.")  # fmt: skip
    else:
        found.append(f"{seeds} seeds: a standard deviation over {seeds} values is itself rough"
                     + ("; small differences may be chance." if seeds < 5 else "."))  # fmt: skip
    if (study.scores["metric"] == "perplexity").any():
        found.append("Perplexity is per token and does not compare across vocabularies; bits per "
                     "byte do.")  # fmt: skip
    tokens = study.training.get("tokens")
    trained = tokens[tokens > 0] if tokens is not None else None
    if trained is not None and len(trained):
        most, least = number(trained.max(), 0), number(trained.min(), 0)
        text = f"Trained cells saw {least if least == most else f'{least} to {most}'} tokens each"
        if trained.max() < _SMALL_BUDGET:
            text += (", a very small budget: the numbers show the method at work and are no "
                     "measure of what longer training reaches")  # fmt: skip
        found.append(text + ".")
    reasons: dict[tuple[str, str], int] = {}
    for lost in study.not_scored:
        reasons[lost.metric, lost.why] = reasons.get((lost.metric, lost.why), 0) + 1
    found += [f"{name} did not score {number(count, 0)} run{'s' if count > 1 else ''}: {why}"
              for (name, why), count in reasons.items()]  # fmt: skip
    return found + study.notes


def _tokens_sentences(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence for each vocabulary; of many vocabularies of a source model, one for all."""
    sources = dict.fromkeys(row["source"] for row in rows)
    found = []
    for source in sources:
        own = sorted((r for r in rows if r["source"] == source), key=lambda r: r["new_tokens"])
        prefix = f"for {source}, " if len(sources) > 1 else ""
        if len(own) <= _MOST_SENTENCES:
            found += [prefix + _tokens_sentence(row) for row in own]
            continue
        first, last = own[0], own[-1]
        few, many = (
            f"{number(row['tokens_per_sentence_after'], 0)} (with {number(row['new_tokens'], 0)})"
            for row in (first, last)
        )
        found.append(
            f"{prefix}new tokens take text from {number(first['tokens_per_sentence_before'], 0)} "
            f"tokens a sentence to {few} and {many}."
        )
    return found


def _tokens_sentence(row: dict[str, Any]) -> str:
    before, after = row["tokens_per_sentence_before"], row["tokens_per_sentence_after"]
    verb = "cut" if after < before else "lengthen" if after > before else "leave"
    text = (
        f"{number(row['new_tokens'], 0)} new tokens {verb} text from {number(before, 0)} to "
        f"{number(after, 0)} tokens a sentence"
    )
    changed = row["english_sentences_changed"]
    if changed is not None:
        share = "no English sentence" if changed == 0 else f"{number(100 * changed, 1)} % of English sentences"  # fmt: skip # noqa: E501
        verb = "is" if changed == 0 else "are"
        text += f"; {share} {verb} cut differently"
    return text + "."


def _score_sentence(score: dict[str, Any]) -> str:
    best, source, lapt = score["best"], score["source"], score["lapt"]
    text = f"for {score['source_model']}, " if score["source_model"] else ""
    if best is None:
        if lapt is None or source is None:
            return ""
        return text + (
            f"{lapt['name']} reaches {_value(score, lapt)}, the source model "
            f"{_value(score, source)}."
        )
    means = [row["mean"] for row in score["rows"]]
    shown = metric(score["metric"])
    if shown.noise is not None and max(means) < shown.noise:
        low, high = (number(value, shown.decimals) for value in (min(means), max(means)))
        return text + (
            f"no model reaches {shown.noise:g} {shown.title} ({low} to {high}): that is noise, "
            "which names no best initializer."
        )
    text += f"best initializer {best['name']}: {_value(score, best)}"
    others = []
    if score["worst"] is not None:
        others.append(f"{_value(score, score['worst'], unit=False)} for {score['worst']['name']}")
    if source is not None:
        others.append(f"{_value(score, source, unit=False)} for the source model")
    if lapt is not None:
        others.append(
            f"{_value(score, lapt, unit=False)} for LAPT (trained with its own vocabulary)"
        )
    text += f", against {listed(others)}" if others else ""
    return f"{text}{_rivals(score)}."


def _rivals(score: dict[str, Any]) -> str:
    """Which others may be as good as the best: by a test, else by their standard deviations.

    Without a test it is the second best alone, if it lies within the larger of the two.
    """
    best, second = score["best"], score["second"]
    if second is None:
        return ""
    if score["not_worse"] is not None:
        tied = score["not_worse"]
        return f"; not shown to be worse: {listed(tied)}" if tied else "; all others are worse"
    if second is score["worst"] or None in (best["std"], second["std"]):
        return ""
    if abs(best["mean"] - second["mean"]) > max(best["std"], second["std"]):
        return ""
    value = _value(score, second, unit=False)
    return f"; {second['name']} ({value}) is within one standard deviation of it"


def _speed_sentence(speed: dict[str, Any], several: bool) -> str:
    what = "the same text is written" if speed["same_text"] else "text is written"
    parts = [
        f"{number(ratio, 2)} times as fast as by the source model"
        + (f" with {name}" if len(speed["by_vocabulary"]) > 1 else "")
        for name, ratio in speed["by_vocabulary"].items()
    ]
    where = f"{speed['task']}, batch" if several else "batch"
    return f"{what} {listed(parts)} ({where} {speed['batch']})."


def _value(score: dict[str, Any], row: dict[str, Any], unit: bool = True) -> str:
    shown = metric(score["metric"])
    text = number(row["mean"], shown.decimals)
    if row["std"] is not None:
        text += f" ± {number(row['std'], shown.decimals)}"
    return f"{text} {shown.title}" if unit else text
