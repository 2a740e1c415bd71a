"""The models that are rows of a table or lines of a figure: which, their names, their scores."""

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from lexigraft.report.names import row_name
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import pick

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Model:
    """A row of the result tables: one configuration without its language and seed."""

    source: str
    vocabulary: str
    initializer: str
    strategy: str

    @property
    def baseline(self) -> bool:
        """Whether its vocabulary is the source model's."""
        return self.initializer == "none"

    @property
    def is_source(self) -> bool:
        """Whether it is the source model as it is."""
        return self.baseline and self.strategy == "none"

    def keys(self) -> dict[str, str]:
        """The axes by name."""
        return {
            "source": self.source,
            "vocabulary": self.vocabulary,
            "initializer": self.initializer,
            "strategy": self.strategy,
        }


def models(study: StudyResults, initializers: list[str] | None = None) -> list[Model]:
    """Source, LAPT and each initializer under the reference strategy, for each source model.

    Where an item asks for several strategies, LAPT and initializers are rows under each of them.
    Where LAPT has none of these it is the study's first, but not beside untrained models.
    Initializers that an item names for a vocabulary that it names are rows even where no record
    has them.
    """
    reference = study.reference_strategy or "none"
    axes = ["source", "vocabulary", "initializer", "strategy"]
    cells = models_of(study.scores.drop_duplicates(axes))
    wanted = study.initializers if initializers is None else initializers
    strategies = several_strategies(study) or (reference,)
    untrained = "none" in study.item.where.get("strategy", ())
    named = {"vocabulary", "initializer"} <= set(study.item.where)
    found = []
    for source in study.order("source"):
        own = [cell for cell in cells if cell.source == source]
        found += [cell for cell in own if cell.baseline and cell.strategy == "none"]
        lapt = [cell for cell in own if cell.baseline and cell.strategy != "none"]
        stand_in = [] if untrained else lapt[:1]
        found += [cell for cell in lapt if cell.strategy in strategies] or stand_in
        for vocabulary in study.new_vocabularies:
            for initializer, strategy in product(wanted, strategies):
                model = Model(source, vocabulary, initializer, strategy)
                missing = named and len(strategies) == 1
                found += [model] if model in cells or missing else []
    return found


def models_of(frame: "pandas.DataFrame") -> list[Model]:
    """The model of each row."""
    axes = frame[["source", "vocabulary", "initializer", "strategy"]]
    return [Model(*map(str, row)) for row in axes.itertuples(index=False)]


def several_strategies(study: StudyResults) -> tuple[str, ...]:
    """The strategies that an item asks for, where these are several."""
    named = study.item.where.get("strategy", ())
    return named if len(named) > 1 else ()


def stub_names(study: StudyResults, first: str = "Model") -> tuple[str, ...]:
    """Headers left of the numbers: source, vocabulary and strategy only where there are several."""
    several = [
        name
        for name, values in (
            ("Source model", study.order("source")),
            ("Vocabulary", study.new_vocabularies),
            ("Strategy", several_strategies(study)),
        )
        if len(values) > 1
    ]
    return (*several, first)


def stub(model: Model, names: tuple[str, ...]) -> tuple[str, ...]:
    """What a row is called under these headers."""
    found = {
        "Source model": model.source,
        "Vocabulary": model.vocabulary,
        "Strategy": model.strategy if model.strategy != "none" else "",
        names[-1]: row_name(model.initializer, model.strategy),
    }
    return tuple(found[name] for name in names)


def vocabulary_stub_names(study: StudyResults, *more: str) -> tuple[str, ...]:
    """Headings of the rows of a table of vocabularies; the source only where there are several."""
    return (*(("Source model",) if study.has_several_sources else ()),
            "Language", "Vocabulary", *more)  # fmt: skip


def vocabulary_stub(
    study: StudyResults, source: str, language: str, vocabulary: str, *more: str
) -> tuple[str, ...]:
    """What a vocabulary's row is called under these headings."""
    names = (study.language(language), vocabulary, *more)
    return (source, *names) if study.has_several_sources else names


def find(summary: "pandas.DataFrame", model: Model, **rest: str) -> "pandas.Series | None":
    """The summary of one model on one language, task and metric."""
    return pick(summary, **model.keys(), **rest)
