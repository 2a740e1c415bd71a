"""How a study was made: models, seeds, strategies, hardware and versions, from its cards."""

from typing import TYPE_CHECKING

from lexigraft.report.study import Study
from lexigraft.report.tables.table import number

if TYPE_CHECKING:
    import pandas

_MEGABYTE = 1_000_000


def making(study: Study) -> list[tuple[str, str]]:
    """`(what, value)` pairs in reading order; what no card says is left out."""
    languages = [study.language(name) for name in study.order("language")]
    rows = [
        ("Source models", ", ".join(study.order("source"))),
        ("Languages", ", ".join(languages)),
        ("Vocabularies", ", ".join(v for v in study.order("vocabulary") if v != "source")),
        ("Initializers", ", ".join(study.initializers)),
        ("Strategies", ", ".join(s for s in study.order("strategy") if s != "none")),
        ("Initializers compared under", study.reference_strategy or "no training"),
        ("Seeds", ", ".join(map(str, study.seeds))),
        *_training(study.training),
        *[(f"Version of {package}", ", ".join(found)) for package, found in study.versions.items()],
    ]
    return [(what, value) for what, value in rows if value]


def _training(training: "pandas.DataFrame") -> list[tuple[str, str]]:
    if "steps" not in training:
        return []
    trained = training[training["steps"] > 0]
    rows = [("Trained cells", number(len(trained), 0))] if len(trained) else []
    for column, what, scale, unit, decimals in (
        ("steps", "Steps per cell", 1, "", 0),
        ("tokens", "Training tokens per cell", 1, "", 0),
        ("trained_parameters", "Trained parameters", 1, "", 0),
        ("total_parameters", "Parameters", 1, "", 0),
        ("seconds", "Training time per cell", 60, " min", 1),
        ("share_of_peak", "Share of the hardware's peak speed", 0.01, " %", 0),
        ("peak_memory_bytes", "Peak memory", _MEGABYTE, " MB", 0),
    ):
        if column not in trained:
            continue
        values = trained[column].dropna() / scale
        if len(values):
            low, high = number(values.min(), decimals), number(values.max(), decimals)
            rows.append((what, (low if low == high else f"{low} to {high}") + unit))
    for column, what in (
        ("device", "Hardware"),
        ("precision", "Precision"),
        ("threads", "Threads"),
    ):
        if column in trained:
            found = dict.fromkeys(str(value) for value in trained[column].dropna())
            rows.append((what, ", ".join(found)))
    return rows
