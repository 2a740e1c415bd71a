"""Scores of held-out text before, during and after training, from records and training logs."""

from pandas import DataFrame

from lexigraft.report.frame import SEEDED, Model, StudyResults, models_of, select
from lexigraft.report.names import listed

BITS_PER_BYTE = "bits_per_byte"


def text_tasks(study: StudyResults, metric: str = BITS_PER_BYTE) -> dict[str, str]:
    """Language -> the task whose text represents it: the one with most models; ties: the first.

    A mean over tasks would not refer to any text.
    """
    rows = select((study.whole or study).summary, metric=metric)
    return {
        str(language): str(scores["task"].value_counts(sort=False).idxmax())
        for language, scores in rows.groupby("language", sort=False)
    }


def text_name(study: StudyResults, metric: str = BITS_PER_BYTE) -> str:
    """The tasks whose text is shown, if other tasks also have scores; otherwise empty."""
    rows = select((study.whole or study).summary, metric=metric)
    shown = dict.fromkeys(text_tasks(study, metric).values())
    return listed(shown) if {*rows["task"]} - {*shown} else ""


def text_scores(frame: DataFrame, tasks: dict[str, str], metric: str = BITS_PER_BYTE) -> DataFrame:
    """The rows of a metric in the task of each language (`text_tasks`)."""
    rows = select(frame, metric=metric)
    return rows[rows["task"] == rows["language"].astype(str).map(tasks)]


def sentences_scored(study: StudyResults, trained: list[Model]) -> str:
    """The number of held-out sentences of these models' curves; empty if no card has it."""
    counts = sorted(_curve_sentences(study, trained))
    return f"{' or '.join(f'{count:,}' for count in counts)} sentences" if counts else ""


def source_level(
    study: StudyResults, trained: list[Model], source: str, language: str, metric: str
) -> float | None:
    """The source model's score on the held-out sentences of these models' curves.

    It is the first score in the log of the source model trained with its own vocabulary.
    """
    counts = _curve_sentences(study, trained)
    baselines = select(study.training, source=source, language=language, initializer="none")
    if counts:
        baselines = baselines[baselines["curve_sentences"].isin(counts)]
    logged = select(study.curves, event="heldout", source=source, language=language, step=0)
    levels = logged.merge(baselines[SEEDED], on=SEEDED)[metric].dropna()
    return float(levels.iloc[0]) if len(levels) else None


def _curve_sentences(study: StudyResults, trained: list[Model]) -> set[int]:
    if "curve_sentences" not in study.training:
        return set()
    cards = study.training[study.training["curve_sentences"].notna()]
    counts = zip(models_of(cards), cards["curve_sentences"], strict=True)
    return {int(count) for model, count in counts if model in trained}
