"""The findings of a study: the numbers in `summary.json`, and sentences and caveats from them."""

from collections import Counter
from typing import Any, NamedTuple

from lexigraft.report.metrics import metric
from lexigraft.report.models import AXES, Column, Model, find, models
from lexigraft.report.names import listed, row_name
from lexigraft.report.paired_tests import LEVEL
from lexigraft.report.score_differences import score_differences
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import Frame, select
from lexigraft.report.table import number
from lexigraft.report.tables.fragmentation import fragmentation
from lexigraft.report.tables.results import quality_columns
from lexigraft.report.tables.speed import speed_up_rows

# Number of training tokens that is less than a hundredth of the published setting (30,000
# sentences, two epochs: several million tokens).
_SMALL_BUDGET = 100_000

_MOST_SENTENCES = 2  # maximum number of vocabularies of a source model with a sentence each
_FEW_SEEDS = 5


class Finding(NamedTuple):
    """One sentence about one language."""

    language: str
    text: str


def finding_numbers(study: StudyResults) -> dict[str, Any]:
    """The numbers behind the findings, by language.

    Each has its `name`; `vocabularies`, see `vocabulary_numbers`; `scores`: per source model and
    task the metric and each row's mean, deviation and number of seeds, the best row with new
    tokens, Source and LAPT, whether all of them are `noise`, and `not_worse`: names of the other
    rows with new tokens that are not significantly worse than the best (None if one of them was not
    tested; noise is not tested); `speed_up`: of each speed task, by vocabulary.
    """
    chosen, columns = models(study), quality_columns(study)
    vocabularies, measured = vocabulary_numbers(study), speed_up_rows(study)
    found = {}
    for language in study.order("language"):
        scores = [
            _score(study, [model for model in chosen if model.source == source], column)
            for source in dict.fromkeys(model.source for model in chosen)
            for column in columns
            if column[0] == language
        ]
        found[language] = {
            "name": study.language(language),
            "vocabularies": [
                {name: value for name, value in row.items() if name != "language"}
                for row in vocabularies
                if row["language"] == language
            ],
            "scores": [score for score in scores if score["rows"]],
            "speed_up": _speed_ups(study, select(measured, language=language)),
        }
    _test_best(study, found)
    return found


def vocabulary_numbers(study: StudyResults) -> list[dict[str, Any]]:
    """New tokens of each vocabulary, and tokens per sentence before and after."""
    frame = fragmentation(study)
    if frame.empty:
        return []
    frame = frame.rename(columns={"tokens_per_sentence": "tokens_per_sentence_after"})
    names = ["source", "language", "vocabulary", "new_tokens", "tokens_per_sentence_before",
             "tokens_per_sentence_after", "english_sentences_changed"]  # fmt: skip
    rows = frame.reindex(columns=names).astype({"new_tokens": int}).to_dict("records")
    for row in rows:
        if row[names[-1]] != row[names[-1]]:
            row[names[-1]] = None
    return rows


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """Sentences from `finding_numbers`, at most one per language and task."""
    found = []
    for language, own in numbers.items():
        several = len(own["speed_up"]) > 1
        sentences = [
            *_token_sentences(own["vocabularies"]),
            *(_score_sentence(score) for score in own["scores"]),
            *(_speed_sentence(speed, several) for speed in own["speed_up"]),
        ]
        found += [Finding(language, text) for text in sentences if text]
    return found


def caveats(study: StudyResults) -> list[str]:
    """Limits of the conclusions, from the config, the cards and the records."""
    trial = []
    if study.budget is not None:
        trial = [
            f"A trial with a budget of {study.budget:g}: every amount of text (training text, "
            "tokens, samples, and what vocabularies, vectors and initializers read) is reduced "
            "to this fraction of the study's."
        ]
    if study.scores.empty:
        return trial + study.notes
    seeds, chance = len(study.seeds), "small differences may be chance"
    if seeds < 2:
        found = [f"One seed: there is no standard deviation, and {chance}."]
    else:
        found = [f"{seeds} seeds: standard deviations are rough estimates"
                 + (f", and {chance}." if seeds < _FEW_SEEDS else ".")]  # fmt: skip
    if (study.scores["metric"] == "perplexity").any():
        found.append("Perplexity is per token and cannot be compared across vocabularies; bits "
                     "per byte can.")  # fmt: skip
    tokens = study.training.get("tokens")
    trained = tokens[tokens > 0] if tokens is not None else None
    if trained is not None and len(trained):
        most, least = number(trained.max(), 0), number(trained.min(), 0)
        text = f"Each trained cell saw {least if least == most else f'{least} to {most}'} tokens"
        if trained.max() < _SMALL_BUDGET:
            text += ", a very small budget: the scores do not show what longer training reaches"
        found.append(f"{text}.")
    reasons = Counter((lost.metric, lost.why) for lost in study.not_scored)
    found += [f"{name} did not score {number(count, 0)} run{'s' if count > 1 else ''}: {why}"
              for (name, why), count in reasons.items()]  # fmt: skip
    return trial + found + study.notes


def _score(study: StudyResults, chosen: list[Model], column: Column) -> dict[str, Any]:
    """The scores of one source model's rows on one language and task."""
    _, task, name = column
    several = len(study.new_vocabularies) > 1
    rows = []
    for model in chosen:
        row = find(study, model, *column)
        if row is not None:
            label = row_name(model.initializer, model.strategy)
            label += f" with {model.vocabulary}" if several and not model.baseline else ""
            std = float(row["std"]) if row["std"] == row["std"] else None
            numbers = {"mean": float(row["mean"]), "std": std, "n_seeds": int(row["n_seeds"])}
            rows.append(model.keys() | {"name": label, **numbers, "over": row["over"]})
    lower = metric(name).lower_is_better
    new = [row for row in rows if row["initializer"] != "none"]
    new.sort(key=lambda row: row["mean"], reverse=not lower)
    own = [row for row in rows if row["initializer"] == "none"]
    return {
        "source_model": chosen[0].source if study.has_several_sources else None,
        "task": task,
        "metric": name,
        "lower_is_better": lower,
        "noise": study.is_noise(chosen[0].source, column),
        "rows": rows,
        "best": new[0] if new else None,
        "second": new[1] if len(new) > 1 else None,
        "worst": new[-1] if len(new) > 1 else None,
        "source": next((row for row in own if row["strategy"] == "none"), None),
        "lapt": next((row for row in own if row["strategy"] != "none"), None),
    }


def _test_best(study: StudyResults, found: dict[str, Any]) -> None:
    """Test the best row of each score against the others, corrected for all tests of the report."""
    rivals = []  # each score, with the names of rows and their comparisons with the best
    for language, numbers in found.items():
        for score in numbers["scores"]:
            best, column = score["best"], (language, score["task"], score["metric"])
            score["not_worse"] = None
            if score["noise"]:
                continue
            others = [row for row in score["rows"]
                      if row["initializer"] != "none" and row is not best]  # fmt: skip
            rivals.append((score, [(row["name"], (_model(row), _model(best), column))
                                   for row in others]))  # fmt: skip
    comparisons = [key for _, own in rivals for _, key in own]
    tests = {(one.model, one.baseline, one.column): one.corrected >= LEVEL
             for one in score_differences(study, comparisons)}  # fmt: skip
    for score, own in rivals:
        if all(key in tests for _, key in own):
            score["not_worse"] = [name for name, key in own if tests[key]]


def _model(row: dict[str, Any]) -> Model:
    return Model(*(row[axis] for axis in AXES))


def _speed_ups(study: StudyResults, measured: Frame) -> list[dict[str, Any]]:
    """For each speed task of a language, the mean speed-up of each vocabulary."""
    measured = measured[measured["initializer"] != "none"]
    found = []
    for task, group in measured.groupby("task", sort=False):
        batch = int(group["batch"].min())
        own = select(group, batch=batch, strategy=study.reference_strategy or "none")
        means = own.groupby(["source", "vocabulary"], sort=False)["speed_up"].mean()
        by_vocabulary = {
            f"{source}, {name}" if study.has_several_sources else str(name): float(ratio)
            for (source, name), ratio in means.items()
        }
        if by_vocabulary:
            found.append({"task": str(task), "batch": batch, "by_vocabulary": by_vocabulary})
    return found


def _token_sentences(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence per vocabulary, or one for all if a source model has many vocabularies."""
    sources = dict.fromkeys(row["source"] for row in rows)
    found = []
    for source in sources:
        own = sorted((r for r in rows if r["source"] == source), key=lambda r: r["new_tokens"])
        prefix = f"for {source}, " if len(sources) > 1 else ""
        if len(own) <= _MOST_SENTENCES:
            found += [prefix + _token_sentence(row) for row in own]
            continue
        few, many = (
            f"{number(row['tokens_per_sentence_after'], 0)} with {number(row['new_tokens'], 0)}"
            for row in (own[0], own[-1])
        )
        before = number(own[0]["tokens_per_sentence_before"], 0)
        found.append(f"{prefix}a sentence has {before} tokens without new tokens, {few} and {many} "
                     "new tokens.")  # fmt: skip
    return found


def _token_sentence(row: dict[str, Any]) -> str:
    before, after = row["tokens_per_sentence_before"], row["tokens_per_sentence_after"]
    change = (f"{'shorten' if after < before else 'lengthen'} text from {number(before, 0)} to "
              f"{number(after, 0)} tokens per sentence")  # fmt: skip
    if after == before:
        change = f"leave text at {number(before, 0)} tokens per sentence"
    text = f"{number(row['new_tokens'], 0)} new tokens {change}"
    if (changed := row["english_sentences_changed"]) is not None:
        share = f"{number(100 * changed, 1)} % of English sentences are"
        text += f"; {share if changed else 'no English sentence is'} tokenized differently"
    return f"{text}."


def _score_sentence(score: dict[str, Any]) -> str:
    best, source, lapt = score["best"], score["source"], score["lapt"]
    shown = metric(score["metric"])
    text = f"for {score['source_model']}, " if score["source_model"] else ""
    if best is None:
        if lapt is None or source is None:
            return ""
        reached, before = (f"{_value(score, row)} {shown.title}" for row in (lapt, source))
        return f"{text}{lapt['name']} reaches {reached}, the source model {before}."
    if score["noise"]:
        means = [row["mean"] for row in score["rows"]]
        low, high = (number(value, shown.decimals) for value in (min(means), max(means)))
        return (f"{text}no model reaches {shown.noise:g} {shown.title} ({low} to {high}): too low "
                "to name a best initializer.")  # fmt: skip
    what = f"best initializer {best['name']}:" if score["second"] else f"{best['name']} reaches"
    text += f"{what} {_value(score, best)} {shown.title}"
    names = ((score["worst"], (score["worst"] or {}).get("name")), (source, "the source model"),
             (lapt, "LAPT (trained with its own vocabulary)"))  # fmt: skip
    others = [f"{_value(score, row)} for {name}" for row, name in names if row is not None]
    text += f", against {listed(others)}" if others else ""
    return f"{text}{_rivals(score)}."


def _rivals(score: dict[str, Any]) -> str:
    """Which rows may be as good as the best: by a test, else by their standard deviations.

    Without a test, only the second best is named, if it is within the larger deviation of the two.
    """
    best, second, tied = score["best"], score["second"], score["not_worse"]
    if second is None:
        return ""
    if tied is not None:
        return (f"; not significantly worse: {listed(tied)}" if tied
                else "; all others are significantly worse")  # fmt: skip
    if second is score["worst"] or None in (best["std"], second["std"]):
        return ""
    if abs(best["mean"] - second["mean"]) > max(best["std"], second["std"]):
        return ""
    return f"; {second['name']} ({_value(score, second)}) is within one standard deviation of it"


def _speed_sentence(speed: dict[str, Any], several: bool) -> str:
    named = len(speed["by_vocabulary"]) > 1
    ratios = [
        f"{number(ratio, 2)} times as fast{f' with {name}' if named else ''}"
        for name, ratio in speed["by_vocabulary"].items()
    ]
    where = f"{speed['task']}, batch" if several else "batch"
    return (f"the same text is written {listed(ratios)} as by the source model "
            f"({where} {speed['batch']}).")  # fmt: skip


def _value(score: dict[str, Any], row: dict[str, Any]) -> str:
    decimals = metric(score["metric"]).decimals
    spread = "" if row["std"] is None else f" ± {number(row['std'], decimals)}"
    return f"{number(row['mean'], decimals)}{spread}"
