"""The models in the rows of a table or the lines of a figure, their names and their scores."""

from dataclasses import dataclass
from itertools import product

from lexigraft.report.names import row_name
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import Frame, SummaryRow

AXES = ["source", "vocabulary", "initializer", "strategy"]
COLUMN = ["language", "task", "metric"]
Column = tuple[str, str, str]  # language, task, metric


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
        """Whether it is the unchanged source model."""
        return self.baseline and self.strategy == "none"

    def keys(self) -> dict[str, str]:
        """The axes by name."""
        return dict(vars(self))


def source_model(name: str) -> Model:
    """An unchanged source model."""
    return Model(name, "source", "none", "none")


def models(study: StudyResults, initializers: list[str] | None = None) -> list[Model]:
    """Source, LAPT and each initializer under the reference strategy, for each source model.

    If an item names several strategies, LAPT and initializers are rows under each of them. If LAPT
    has none of these, it is the study's first one trained on text only, as the name implies
    (training on samples of tasks is something else), but not together with untrained models.
    Initializers that an item names for a vocabulary that it names are rows even without a record.
    """
    cells = models_of(study.scores.drop_duplicates(AXES))
    where = study.item.where
    wanted = study.initializers if initializers is None else initializers
    strategies = several_strategies(study) or (study.reference_strategy or "none",)
    missing = {"vocabulary", "initializer"} <= set(where) and len(strategies) == 1
    found = []
    for source in study.order("source"):
        own = [cell for cell in cells if cell.source == source and cell.baseline]
        found += [cell for cell in own if cell.is_source]
        lapt = [cell for cell in own if not cell.is_source]
        plain = [cell for cell in lapt if study.is_of_text_alone(cell.strategy)]
        stand_in = [] if "none" in where.get("strategy", ()) else plain[:1]
        found += [cell for cell in lapt if cell.strategy in strategies] or stand_in
        new = (Model(source, *names)
               for names in product(study.new_vocabularies, wanted, strategies))  # fmt: skip
        found += [model for model in new if missing or model in cells]
    return found


def models_of(frame: Frame) -> list[Model]:
    """The model of each row."""
    return [Model(*map(str, row)) for row in frame[AXES].itertuples(index=False)]


def several_strategies(study: StudyResults) -> tuple[str, ...]:
    """The strategies that an item names, if there are several."""
    named = study.item.where.get("strategy", ())
    return named if len(named) > 1 else ()


def stub_names(study: StudyResults) -> tuple[str, ...]:
    """Headers left of the numbers: source, vocabulary and strategy only if there are several."""
    values = {
        "Source model": study.order("source"),
        "Vocabulary": study.new_vocabularies,
        "Strategy": several_strategies(study),
    }
    return (*(name for name, several in values.items() if len(several) > 1), "Model")


def stub(model: Model, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a row under these headers."""
    found = {
        "Source model": model.source,
        "Vocabulary": model.vocabulary,
        "Strategy": model.strategy if model.strategy != "none" else "",
        "Model": row_name(model.initializer, model.strategy),
    }
    return tuple(found[name] for name in names)


def vocabulary_stub_names(study: StudyResults, *more: str) -> tuple[str, ...]:
    """Headings of the rows of a table of vocabularies; the source only if there are several."""
    names = ("Language", "Vocabulary", *more)
    return ("Source model", *names) if study.has_several_sources else names


def vocabulary_stub(
    study: StudyResults, source: str, language: str, vocabulary: str, *more: str
) -> tuple[str, ...]:
    """The names of a vocabulary's row under these headings."""
    names = (study.language(language), vocabulary, *more)
    return (source, *names) if study.has_several_sources else names


def find(
    study: StudyResults, model: Model, language: str, task: str, metric: str
) -> "SummaryRow | None":
    """The summary of one model on a language, task and metric, or None without a score."""
    at = study.places.get((*vars(model).values(), language, task, metric))
    return None if at is None else study.summary.iloc[at]
