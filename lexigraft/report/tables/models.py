"""The models that are rows of a table or lines of a figure: which, their names, their scores."""

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from lexigraft.report.names import row_name
from lexigraft.report.study import Study
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


def models(study: Study, initializers: list[str] | None = None) -> list[Model]:
    """Source, LAPT and each initializer under the reference strategy, for each source model.

    Where an item asks for several strategies, LAPT and initializers are rows under each of them.
    Where LAPT has none of these it is the study's first, but not beside untrained models.
    Initializers that an item names for a vocabulary that it names are rows even where no record
    has them.
    """
    reference = study.reference_strategy or "none"
    present = study.scores[["source", "vocabulary", "initializer", "strategy"]].drop_duplicates()
    cells = [Model(*map(str, row)) for row in present.itertuples(index=False)]
    wanted = study.initializers if initializers is None else initializers
    strategies = several_strategies(study) or (reference,)
    untrained = "none" in study.asked.where.get("strategy", ())
    named = {"vocabulary", "initializer"} <= set(study.asked.where)
    found = []
    for source in study.order("source"):
        own = [cell for cell in cells if cell.source == source]
        found += [cell for cell in own if cell.baseline and cell.strategy == "none"]
        lapt = [cell for cell in own if cell.baseline and cell.strategy != "none"]
        stand_in = [] if untrained else lapt[:1]
        found += [cell for cell in lapt if cell.strategy in strategies] or stand_in
        for vocabulary in (name for name in study.order("vocabulary") if name != "source"):
            for initializer, strategy in product(wanted, strategies):
                model = Model(source, vocabulary, initializer, strategy)
                missing = named and len(strategies) == 1
                found += [model] if model in cells or missing else []
    return found


def several_strategies(study: Study) -> tuple[str, ...]:
    """The strategies that an item asks for, where these are several."""
    asked = study.asked.where.get("strategy", ())
    return asked if len(asked) > 1 else ()


def stub_names(study: Study, first: str = "Model") -> tuple[str, ...]:
    """Headers left of the numbers: source, vocabulary and strategy only where there are several."""
    several = [
        name
        for name, values in (
            ("Source model", study.order("source")),
            ("Vocabulary", [v for v in study.order("vocabulary") if v != "source"]),
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


def find(summary: "pandas.DataFrame", model: Model, **rest: str) -> "pandas.Series | None":
    """The summary of one model on one language, task and metric."""
    return pick(summary, **model.keys(), **rest)
