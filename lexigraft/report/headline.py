"""The numbers behind the findings of a study, by language: what `summary.json` holds."""

from typing import TYPE_CHECKING, Any

from lexigraft.report.metrics import metric
from lexigraft.report.models import Model, find, models
from lexigraft.report.names import row_name
from lexigraft.report.significance import LEVEL, differences
from lexigraft.report.study import StudyResults as Study
from lexigraft.report.tables.fragmentation import fragmentation
from lexigraft.report.tables.results import quality_columns
from lexigraft.report.tables.speed import speeds

if TYPE_CHECKING:
    import pandas


def headline(study: Study, summary: "pandas.DataFrame") -> dict[str, Any]:
    """The numbers behind the findings, by language.

    Returns
    -------
    dict
        language -> `name`; `vocabularies`: per source and vocabulary the new tokens and tokens per
        sentence before and after; `scores`: per task the metric and each row's mean, deviation and
        number of seeds, the best row with new tokens, Source and LAPT, and `not_worse`: names of
        the other rows with new tokens that are not shown to be worse than the best, None where one
        of them was not tested; `speed_up`: of each speed task, by vocabulary.
    """
    found = {}
    chosen, columns = models(study), quality_columns(study, summary)
    fast = speeds(summary)
    for language in study.order("language"):
        scores = [
            _score(study, summary, [m for m in chosen if m.source == source], *column)
            for source in dict.fromkeys(model.source for model in chosen)
            for column in columns
            if column[0] == language
        ]
        found[language] = {
            "name": study.language(language),
            "vocabularies": _vocabularies(study, language),
            "scores": [score for score in scores if score["rows"]],
            "speed_up": _speed_ups(study, fast, language),
        }
    _test_best(study, found)
    return found


def _vocabularies(study: Study, language: str) -> list[dict[str, Any]]:
    frame = fragmentation(study)
    if frame.empty or "tokens_per_sentence_before" not in frame:
        return []
    rows = []
    for row in frame[frame["language"] == language].to_dict("records"):
        changed = row.get("english_sentences_changed")
        rows.append(
            {
                "source": row["source"],
                "vocabulary": row["vocabulary"],
                "new_tokens": int(row["new_tokens"]),
                "tokens_per_sentence_before": row["tokens_per_sentence_before"],
                "tokens_per_sentence_after": row["tokens_per_sentence"],
                "english_sentences_changed": None if changed != changed else changed,
            }
        )
    return rows


def _score(
    study: Study,
    summary: "pandas.DataFrame",
    chosen: list[Model],
    language: str,
    task: str,
    name: str,
) -> dict[str, Any]:
    """The scores of one source model's rows on one language and task."""
    rows = []
    for model in chosen:
        row = find(summary, model, language=language, task=task, metric=name)
        if row is not None:
            std = float(row["std"])
            rows.append(
                model.keys()
                | {
                    "name": _row_name(study, model),
                    "mean": float(row["mean"]),
                    "std": std if std == std else None,
                    "n_seeds": int(row["n_seeds"]),
                    "over": row["over"],
                }
            )
    lower = metric(name).lower_is_better
    new = [row for row in rows if row["initializer"] != "none"]
    new.sort(key=lambda row: float(row["mean"]), reverse=not lower)
    own = [row for row in rows if row["initializer"] == "none"]
    return {
        "source_model": chosen[0].source if len(study.order("source")) > 1 else None,
        "task": task,
        "metric": name,
        "lower_is_better": lower,
        "rows": rows,
        "best": new[0] if new else None,
        "second": new[1] if len(new) > 1 else None,
        "worst": new[-1] if len(new) > 1 else None,
        "source": next((row for row in own if row["strategy"] == "none"), None),
        "lapt": next((row for row in own if row["strategy"] != "none"), None),
    }


def _test_best(study: Study, found: dict[str, Any]) -> None:
    """Compare the best row of each score with the others, corrected for all of the report's."""
    rivals = []
    for language, numbers in found.items():
        for score in numbers["scores"]:
            column = (language, score["task"], score["metric"])
            new = [row for row in score["rows"] if row["initializer"] != "none"]
            others = [row for row in new if row is not score["best"]]
            rivals.append((score, others, column))
    tests = {
        (one.model, one.column): one
        for one in differences(
            study,
            [(_model(row), _model(score["best"]), column)
             for score, others, column in rivals for row in others],
        )
    }  # fmt: skip
    for score, others, column in rivals:
        own = [tests.get((_model(row), column)) for row in others]
        names = [row["name"] for row, one in zip(others, own, strict=True)
                 if one is not None and one.corrected >= LEVEL]  # fmt: skip
        score["not_worse"] = None if None in own else names


def _model(row: dict[str, Any]) -> Model:
    return Model(row["source"], row["vocabulary"], row["initializer"], row["strategy"])


def _row_name(study: Study, model: Model) -> str:
    name = row_name(model.initializer, model.strategy)
    several = len(set(study.order("vocabulary")) - {"source"}) > 1
    return f"{name} with {model.vocabulary}" if several and not model.baseline else name


def _speed_ups(study: Study, fast: "pandas.DataFrame", language: str) -> list[dict[str, Any]]:
    """Of each speed task, how much faster the same text is written, by vocabulary."""
    fast = fast[(fast["unit"] != "tokens") & (fast["language"] == language)]
    fast = fast[fast["speed_up"].notna() & (fast["initializer"] != "none")]
    several = len(study.order("source")) > 1
    found = []
    for task, group in fast.groupby("task", sort=False):
        batch = int(group["batch"].min())
        own = group[
            (group["batch"] == batch) & (group["strategy"] == (study.reference_strategy or "none"))
        ]
        means = own.groupby(["source", "vocabulary"], sort=False)["speed_up"].mean()
        if len(means):
            found.append(
                {
                    "task": str(task),
                    "batch": batch,
                    "same_text": bool((group["unit"] == "same_text_characters").any()),
                    "by_vocabulary": {
                        f"{source}, {name}" if several else str(name): float(ratio)
                        for (source, name), ratio in means.items()
                    },
                }
            )
    return found
