"""The registry of report items: pages, tables and figures declare themselves with a decorator.

A kind is one file in `pages`, `tables` or `figures` with a function of its name, or a function in a
user's plug-in, decorated with `page`, `table` or `figure`. The Snakefile imports the kinds of a
study in every job, so their modules must not import matplotlib, scipy or torch at the top.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from lexigraft.cells import NAME, PLURALS
from lexigraft.errors import UserError, unknown
from lexigraft.settings import explain

GROUPS = ("pages", "tables", "figures")
# Items of a study that names none; the other kinds need additional records, or several sizes.
DEFAULT = (
    "recommendation",
    "results",
    "strategies",
    "speed",
    "perplexity",
    "fragmentation",
    "initializers",
    "learning_curves",
    "loss_curves",
    "new_tokens",
)
# Items may name these like tasks: numbers of cards, logs and records of tokenizers, by cell.
CARD_TASKS = ("training", "initialization", "vocabulary")
# Axis of the grid -> the config key of a list of its names.
LISTS = {axis: plural for axis, plural in PLURALS.items() if axis != "seed"}
_FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Refers:
    """Marks an option whose names must be in a list of the study, such as `tasks`, or must not."""

    to: str
    unlike: bool = False


def _check_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"'{name}' is listed twice; list each once")
    return names


Name = Annotated[str, Field(pattern=f"^{NAME}$")]
Names = Annotated[tuple[Name, ...], Field(min_length=1), AfterValidator(_check_unique)]
_IN_ORDER = Field(description="names to show, in this order")
TaskNames = Annotated[Names, Refers("tasks"), _IN_ORDER]
TokenizerNames = Annotated[Names, Refers("tokenizers"), _IN_ORDER]
MetricNames = Annotated[
    Names, Field(description="names to show, in this order; default: the main metric of each task")
]


class Options(BaseModel):
    """The options of a kind in addition to `name`, `title` and `where`; here none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CellNames(Options):
    """Some cells: those with these names on each axis; by default, with any name."""

    sources: Annotated[Names, Refers("sources")] = ()
    languages: Annotated[Names, Refers("languages")] = ()
    vocabularies: Annotated[Names, Refers("vocabularies")] = ()
    initializers: Annotated[Names, Refers("initializers")] = ()
    strategies: Annotated[Names, Refers("strategies")] = ()


class TaskOptions(Options):
    """The options of an item that shows a fixed number for each task."""

    tasks: TaskNames = ()


class ScoreOptions(TaskOptions):
    """The options of an item that shows scores of tasks."""

    metrics: MetricNames = ()


@dataclass(frozen=True)
class Kind:
    """The declaration of a kind of page, table or figure."""

    name: str
    group: str
    # Takes the part of the study that an item shows; returns None if there is nothing to show.
    build: Callable[..., Any]
    title: str  # the default heading of its items
    # `{strategy}` and `{seeds}` are
    # replaced by those of the study. The first sentence is its row in config/README.md.
    caption: str
    empty: str  # the reason shown if there is nothing to show
    options: type[Options] = Options
    reads: tuple[str, ...] = ()  # records that are only computed if an item reads them
    rank: int = 9  # the page opens with the figure of the lowest rank, the first of them


_KINDS: dict[str, Kind] = {}


def _declare(group: str, **declared: Any) -> Callable[[Callable], Callable]:
    def register(build: Callable) -> Callable:
        name = build.__name__
        known = _KINDS.get(name)
        if known and known.build.__module__ != build.__module__:
            raise UserError(
                f"report item '{name}' of {build.__module__} already exists in "
                f"{known.build.__module__}; give its function another name"
            )
        _KINDS[name] = Kind(name, group, build, **declared)
        return build

    return register


# Decorators of a function `(study, title, caveats)` that returns a page, `(study)` that returns a
# table, and `(study, look)` that returns a figure; their arguments are fields of `Kind`.
page, table, figure = (partial(_declare, group) for group in GROUPS)


@cache
def _files() -> dict[str, str]:
    return {
        file.stem: group
        for group in GROUPS
        for file in sorted((_FOLDER / group).glob("*.py"))
        if file.stem != "__init__"
    }


def kinds() -> dict[str, str]:
    """Every kind and its group; pages first, then tables, then figures; plug-ins last."""
    return _files() | {name: kind.group for name, kind in _KINDS.items()}


def load(kind: str) -> Kind:
    """The declaration of a kind; imports its module."""
    if kind not in _KINDS:
        import_module(f"lexigraft.report.{_files()[kind]}.{kind}")
    return _KINDS[kind]


def kind_file(kind: str) -> str:
    """The file of a kind, relative to the repository."""
    return f"lexigraft/report/{_files()[kind]}/{kind}.py"


def template_files() -> list[str]:
    """The templates of pages, relative to the repository."""
    return [f"lexigraft/report/templates/{file.name}" for file in (_FOLDER / "templates").iterdir()]


def records_read(items: "Sequence[Item]") -> set[str]:
    """The records that are only computed because these items read them."""
    return {name for item in items for name in load(item.kind).reads}


@dataclass(frozen=True)
class Item:
    """One page, table or figure of a report.

    Its files have its `name`; the default `title` is its kind's. `where` is axis -> the names to
    show, in this order; other axes show all names, and baselines are always shown.
    """

    kind: str
    name: str
    title: str = ""
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    options: Any = field(default_factory=Options)

    @property
    def group(self) -> str:
        """Its group: `pages`, `tables` or `figures`."""
        return kinds()[self.kind]

    @property
    def label(self) -> str:
        """Its name in lists of items."""
        return self.title or re.sub("[-_]", " ", self.name).capitalize()

    @property
    def tasks(self) -> Names:
        """The tasks that it names; empty: all tasks, or its kind shows no tasks."""
        return self.option("tasks") or ()

    @property
    def metrics(self) -> Names:
        """The metrics that it names; empty: the kind's default."""
        return self.option("metrics") or ()

    def option(self, name: str) -> Any:
        """One of its options; None if its kind does not have it."""
        return getattr(self.options, name, None)

    def caption(
        self, strategy: str | None = "the reference strategy", seeds: str = "the seeds"
    ) -> str:
        """Its caption, with the names of the study's strategy and seeds."""
        text = load(self.kind).caption
        return text.replace("{strategy}", strategy or "no training").replace("{seeds}", seeds)


def read_items(entries: Sequence[str | Mapping[str, Any]]) -> list[Item]:
    """The items of `report.items` in their order; `DEFAULT` if there are none.

    Raises a UserError if an item has an unknown kind, an option that its kind does not have, or the
    name of another item.
    """
    items: dict[str, Item] = {}
    for number, entry in enumerate(entries or DEFAULT):
        key = f"report.items[{number}]"
        options: dict[str, Any] = {"item": entry} if isinstance(entry, str) else dict(entry)
        kind = options.pop("item")
        if kind not in kinds():
            raise unknown(key, kind, [*kinds()])
        name, title = options.pop("name", kind), options.pop("title", "")
        names = _validated(CellNames, options.pop("where", {}), f"{key}.where")
        where = {axis: chosen for axis, of in LISTS.items() if (chosen := getattr(names, of))}
        if name.casefold() in map(str.casefold, items):
            raise UserError(f"{key}: the name '{name}' already exists; give it another name")
        items[name] = Item(kind, name, title, where, _validated(load(kind).options, options, key))
    return [*items.values()]


def check_items(
    items: Sequence[Item],
    blocks: Sequence[Mapping[str, Any]],
    tasks: Collection[str],
    fragmentation: Mapping[str, Sequence[str]],
    members: Collection[str] = (),
) -> None:
    """Check that the names in items exist in a study; raises a UserError.

    `blocks` are the study's `cells`: lists of names by their config keys. `tasks` are those that it
    runs, `fragmentation` the `tokenizers` and `languages` that it compares without a model,
    `members` the languages of its groups.
    """
    of_cells = {key: [name for block in blocks for name in block[key]] for key in LISTS.values()}
    known: dict[str, tuple[Collection[str], str]] = {
        "tasks": ([*tasks, *CARD_TASKS], "run by this study"),
        "tokenizers": (fragmentation["tokenizers"], "compared by this study"),
        **{key: (names, "in this study") for key, names in of_cells.items()},
        "languages": ([*of_cells["languages"], *members], "in this study"),
    }
    of_cells["languages"] += fragmentation["languages"]
    for number, item in enumerate(items):
        key = f"report.items[{number}]"
        references: list[tuple[str, Sequence[str], Collection[str], str]] = [
            (f"where.{LISTS[axis]}", names, of_cells[LISTS[axis]], "in this study")
            for axis, names in item.where.items()
        ]
        for option, names, mark in _marked(item.options):
            valid, among = known[mark.to]
            if not mark.unlike:
                references.append((option, names, valid, among))
            elif taken := [name for name in names if name in valid]:
                raise UserError(
                    f"{key}.{option}: '{taken[0]}' is already one of the {mark.to} of this "
                    "study; give it another name"
                )
        for option, names, valid, among in references:
            for name in names:
                if name not in valid:
                    raise unknown(f"{key}.{option}", name, valid, among)


def _marked(options: BaseModel, prefix: str = "") -> Iterator[tuple[str, Sequence[str], Refers]]:
    """Options with `Refers`: their location, the names, and the mark."""
    for option, declared in type(options).model_fields.items():
        value = getattr(options, option) or ()
        for mark in declared.metadata:
            if isinstance(mark, Refers):
                yield f"{prefix}{option}", (value,) if isinstance(value, str) else value, mark
        if isinstance(value, BaseModel):
            yield from _marked(value, f"{prefix}{option}.")
        for number, inner in enumerate(value if isinstance(value, tuple) else ()):
            if isinstance(inner, BaseModel):
                yield from _marked(inner, f"{prefix}{option}[{number}].")


def choices(annotation: Any) -> list[str]:
    """The values of all `Literal` types in an annotation."""
    values = []
    for part in get_args(annotation):
        values += [part] if isinstance(part, str) else choices(part)
    return values


def _validated(model: type[BaseModel], values: Mapping[str, Any], key: str) -> Any:
    """The options as their model; a UserError names the key that is wrong."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UserError(explain(error, model, key)) from None
