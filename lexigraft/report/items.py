"""The registry of what a report shows: each file of `pages`, `tables` and `figures` is a kind.

A kind's file declares it as `KIND`, with its options, caption and what is said where it has nothing
to show. It imports no heavy library: the Snakefile is parsed again in every job.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from lexigraft.errors import UserError, suggestion, unknown
from lexigraft.settings import explain

GROUPS = ("pages", "tables", "figures")
# What a study that names no items gets; the others need records of their own, or several sizes.
DEFAULT = ("recommendation", "results", "strategies", "speed", "perplexity", "fragmentation",
           "initializers", "learning_curves", "bits_per_byte", "loss_curves", "speed_quality",
           "fertility", "new_tokens")  # fmt: skip
# Of each axis of the grid: what a config calls a list of its names.
LISTS = {
    "source": "sources",
    "language": "languages",
    "vocabulary": "vocabularies",
    "initializer": "initializers",
    "strategy": "strategies",
}
_FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Refers:
    """Says of an option that its names are those of a study's `tasks`, `tokenizers` or other."""

    to: str


@dataclass(frozen=True)
class Unlike:
    """Says of an option that its name must be none of a study's `tasks` or other."""

    to: str


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"'{name}' is listed twice; list each once")
    return names


Names = Annotated[tuple[Name, ...], Field(min_length=1), AfterValidator(_unique)]
_Chosen = Field(description="names to show, in this order")
TaskNames = Annotated[Names, Refers("tasks"), _Chosen]
TokenizerNames = Annotated[Names, Refers("tokenizers"), _Chosen]
MetricNames = Annotated[
    Names, Field(description="names to show, in this order; default: the main metric of each task")
]
BatchSize = Annotated[int, Field(strict=True, ge=1)]
SpeedUpBatch = Annotated[
    BatchSize | None,
    Field(description="batch size of the speed-up; default: the smallest measured"),
]


class Options(BaseModel):
    """The options of a kind beside `name`, `title` and `where`; here none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TaskOptions(Options):
    """The options of what shows tasks by a number of its own."""

    tasks: TaskNames = ()


class ScoreOptions(TaskOptions):
    """The options of what shows scores of tasks."""

    metrics: MetricNames = ()


@dataclass(frozen=True)
class Kind:
    """What a page, a table or a figure says of itself.

    `title` is its heading where the item has none. `caption` says what it shows, for the report and
    Snakemake's, or is a function that says it of an item: `{strategy}` and `{seeds}` stand for
    those of the study, and the first sentence is its row in config/README.md. `empty` is why a
    study has nothing to show under it, `options` the model of its options, and `reads` names
    records that are made only where a kind that reads them is asked for. The page opens with the
    figure of the lowest `rank`, of several the one that the study lists first.
    """

    title: str
    caption: "str | Callable[[Item], str]"
    empty: str
    options: type[Options] = Options
    reads: tuple[str, ...] = ()
    rank: int = 9


@dataclass(frozen=True)
class Item:
    """One page, table or figure of a report.

    Its files have its `name`; without a `title` it has its kind's. `where` is axis -> the names to
    show, in this order; an axis that is not there shows all, and baselines are always shown.
    """

    kind: str
    name: str
    title: str = ""
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    options: Any = field(default_factory=Options)

    @property
    def group(self) -> str:
        """What it is one of: `pages`, `tables` or `figures`."""
        return kinds()[self.kind]

    @property
    def label(self) -> str:
        """What a list of items calls it."""
        return self.title or self.name.replace("_", " ").replace("-", " ").capitalize()

    @property
    def tasks(self) -> Names:
        """The tasks that it names; none means all, or that its kind shows no tasks."""
        return self.option("tasks") or ()

    @property
    def metrics(self) -> Names:
        """The metrics that it names; none means the kind's own choice."""
        return self.option("metrics") or ()

    def option(self, name: str) -> Any:
        """One of its options; None where its kind has none of this name."""
        return getattr(self.options, name, None)

    def caption(
        self, strategy: str | None = "the reference strategy", seeds: str = "the seeds"
    ) -> str:
        """What it shows, with the study's strategy and seeds by name."""
        caption = load(self.kind).KIND.caption
        text = caption if isinstance(caption, str) else caption(self)
        return text.replace("{strategy}", strategy or "no training").replace("{seeds}", seeds)


@cache
def kinds() -> dict[str, str]:
    """Every kind and its group; pages first, then tables, then figures."""
    return {
        file.stem: group
        for group in GROUPS
        for file in sorted((_FOLDER / group).glob("*.py"))
        if file.stem != "__init__"
    }


def kind_file(kind: str) -> str:
    """The file of a kind, relative to the repository: an entry point of its staleness digest."""
    return f"lexigraft/report/{kinds()[kind]}/{kind}.py"


def template_files() -> list[str]:
    """The templates of pages, which the digest of a report's code takes in, too."""
    folder = "report/templates"
    return [f"lexigraft/{folder}/{file.name}" for file in (_FOLDER.parent / folder).iterdir()]


def load(kind: str) -> ModuleType:
    """The module of a kind, with `KIND` and its function `build`."""
    return import_module(f"lexigraft.report.{kinds()[kind]}.{kind}")


def records_read(items: Sequence[Item]) -> set[str]:
    """Which records these items read that are made only where such items ask for them."""
    return {name for item in items for name in load(item.kind).KIND.reads}


def read_items(given: Sequence[str | Mapping[str, Any]]) -> list[Item]:
    """The items of `report.items` in their order; none means `DEFAULT`.

    A UserError where one has an unknown kind, an option that its kind does not take, or another's
    name.
    """
    items: dict[str, Item] = {}
    for number, entry in enumerate(given or DEFAULT):
        place = f"report.items[{number}]"
        options: dict[str, Any] = {"item": entry} if isinstance(entry, str) else dict(entry)
        kind = options.pop("item")
        if kind not in kinds():
            raise unknown(place, kind, [*kinds()])
        name, title = options.pop("name", kind), options.pop("title", "")
        chosen = _validated(_Where, options.pop("where", {}), f"{place}.where", kind)
        where = {axis: names for axis, of in LISTS.items() if (names := getattr(chosen, of))}
        own = _validated(load(kind).KIND.options, options, place, kind)
        if name in items:
            raise UserError(f"{place}: there is a '{name}' already; give it a name of its own")
        items[name] = Item(kind, name, title, where, own)
    return [*items.values()]


def check_items(
    items: Sequence[Item],
    blocks: Sequence[Mapping[str, Any]],
    tasks: Collection[str],
    fragmentation: Mapping[str, Sequence[str]],
    members: Collection[str] = (),
) -> None:
    """Check that items ask for what a study has.

    `blocks` are the study's `cells`: lists of names by what a config calls them. `tasks` are those
    that it runs, `fragmentation` the `tokenizers` and `languages` that it compares without a model,
    `members` the languages of its groups.
    A UserError where an item names something that no cell of the study has, a task that it does not
    run, or a tokenizer that it does not compare.
    """
    of_cells = {of: [name for block in blocks for name in block[of]] for of in LISTS.values()}
    known = {
        "tasks": (tasks, "run by this study"),
        "tokenizers": (fragmentation["tokenizers"], "compared by this study"),
        **{of: (names, "of this study") for of, names in of_cells.items()},
        "languages": ({*of_cells["languages"], *members}, "of this study"),
    }
    of_cells["languages"] += fragmentation["languages"]
    for number, item in enumerate(items):
        place = f"report.items[{number}]"
        asked: list[tuple[str, Sequence[str], Collection[str], str]] = [
            (f"where.{LISTS[axis]}", names, of_cells[LISTS[axis]], "of this study")
            for axis, names in item.where.items()
        ]
        for option, names, marked in _marked(item.options):
            if isinstance(marked, Refers):
                asked.append((option, names, *known[marked.to]))
            elif taken := [name for name in names if name in known[marked.to][0]]:
                raise UserError(
                    f"{place}.{option}: '{taken[0]}' is among the {marked.to} of this study; give "
                    "it another name"
                )
        for option, names, valid, among in asked:
            for name in names:
                if name not in valid:
                    raise unknown(f"{place}.{option}", name, valid, among)


def _marked(
    options: BaseModel, place: str = ""
) -> Iterator[tuple[str, Sequence[str], Refers | Unlike]]:
    """Options that name what a study has, or must not: where they are, the names, and the mark."""
    for option, declared in type(options).model_fields.items():
        given = getattr(options, option) or ()
        for mark in declared.metadata:
            if isinstance(mark, Refers | Unlike):
                yield f"{place}{option}", (given,) if isinstance(given, str) else given, mark
        for number, inner in enumerate(given if isinstance(given, tuple) else ()):
            if isinstance(inner, BaseModel):
                yield from _marked(inner, f"{place}{option}[{number}].")


def choices(annotation: Any) -> list[str]:
    """The texts of every `Literal` in an annotation."""
    found = []
    for part in get_args(annotation):
        found += [part] if isinstance(part, str) else choices(part)
    return found


_AXES: dict[str, Any] = dict.fromkeys(LISTS.values(), (Names, ()))
_Where = create_model("_Where", __base__=Options, **_AXES)


def _validated(model: type[BaseModel], given: Mapping[str, Any], where: str, kind: str) -> Any:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        # An option that is not there says more than a wrong value beside it.
        first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
        explained = explain(error, model, where)
    if len(first["loc"]) > 2:  # in a mapping of a list
        raise UserError(explained)
    option, value = str(first["loc"][0]), first["input"]
    place = f"{where}.{option}"
    match first["type"]:
        case "extra_forbidden" if model is _Where:
            raise unknown(where, option, _Where.model_fields)
        case "extra_forbidden":
            known = ("name", "title", "where", *model.model_fields)
            raise UserError(f"{where}: '{kind}' takes no {option}{suggestion(option, known)}")
        case "literal_error":
            raise unknown(place, value, choices(model.model_fields[option].annotation))
        case "string_pattern_mismatch":
            allowed = "letters, digits, '.', '_' and '-'"
            raise UserError(f"{place}: '{value}' is not a name: {allowed}")
    raise UserError(explained)
