"""Tokenizers that were compared without a model: which ones, in which languages, with what."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lexigraft.report.study import Study

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Compared:
    """What an item shows of a study's tokenizers.

    Attributes
    ----------
    languages, tokenizers
        In the order of the item, else of the study.
    values
        `(language, tokenizer, metric)` -> value, see `lexigraft.evaluation.fragmentation.cut_by`.
    """

    languages: list[str]
    tokenizers: list[str]
    values: dict[tuple[str, str, str], float]

    def value(self, language: str, tokenizer: str, metric: str) -> float | None:
        """One number; None if it was not measured."""
        return self.values.get((language, tokenizer, metric))


def compared(study: Study) -> Compared | None:
    """What the item that a study was cut out for shows; None where nothing was measured."""
    frame: pandas.DataFrame = study.tokenizers
    asked = study.asked.where.get("language")
    languages = list(asked or dict.fromkeys(map(str, frame["language"])))
    tokenizers = list(study.asked.tokenizers or dict.fromkeys(map(str, frame["tokenizer"])))
    values = {
        (row["language"], row["tokenizer"], row["metric"]): float(row["value"])
        for row in frame.to_dict("records")
        if row["language"] in languages and row["tokenizer"] in tokenizers
    }
    return Compared(languages, tokenizers, values) if values else None
