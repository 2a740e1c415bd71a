"""What a report shows: pages, tables and figures, each perhaps of a part of the study only.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lexigraft.errors import UserError, unknown

# Kinds in reading order, with the options that each takes beside `name`, `title` and `where`.
PAGES: dict[str, tuple[str, ...]] = {"recommendation": ()}
TABLES: dict[str, tuple[str, ...]] = {
    "results": ("tasks", "metrics", "speed_up_of", "batch_size"),
    "strategies": ("tasks", "metrics"),
    "significance": ("tasks", "metrics"),
    "speed": ("tasks", "metrics", "batch_size"),
    "perplexity": ("metrics",),
    "fragmentation": (),
    "initializers": (),
    "alignment": (),
    "tokenizers": ("tokenizers", "compared_with"),
    "texts": (),
    "contamination": (),
}
FIGURES: dict[str, tuple[str, ...]] = {
    "bits_per_byte": (),
    "loss_curves": ("metrics", "over"),
    "checkpoints": ("tasks", "metrics"),
    "forgetting": ("tasks",),
    "speed_quality": ("tasks",),
    "vocabulary_size": ("tasks", "metrics", "batch_size"),
    "target_token_share": ("tasks",),
    "source_fragmentation": (),
    "fertility": (),
    "new_tokens": (),
    "alignment_loss": (),
    "tokens_per_sentence": ("metrics", "tokenizers"),
}
# The metrics that kinds which compute their own columns can show.
_METRICS = {
    "speed": (
        "steps_per_sentence",
        "tokens_per_second",
        "characters_per_second",
        "bytes_per_second",
        "first_token_seconds",
        "speed_up",
    ),
    "perplexity": ("perplexity", "bits_per_byte_before", "bits_per_byte"),
    "loss_curves": (
        "loss",
        "bits_per_byte",
        "english_bits_per_byte",
        "perplexity",
        "english_perplexity",
    ),
    "tokens_per_sentence": (
        "tokens_per_sentence",
        "fertility",
        "bytes_per_token",
        "english_parity",
    ),
}
# Kinds that read records of alignment, which are only made where one of these is asked for.
ALIGNMENT = ("alignment", "alignment_loss")
# What a study that names no items gets; the others need records of their own, or several sizes.
DEFAULT = ("recommendation", "results", "strategies", "speed", "perplexity", "fragmentation",
           "initializers", "bits_per_byte", "loss_curves", "speed_quality", "fertility",
           "new_tokens")  # fmt: skip
_OPTIONS = ("tasks", "metrics", "batch_size", "speed_up_of", "over", "tokenizers", "compared_with")
# Of each axis of the grid: what a config calls a list of its names.
LISTS = {
    "source": "sources",
    "language": "languages",
    "vocabulary": "vocabularies",
    "initializer": "initializers",
    "strategy": "strategies",
}


@dataclass(frozen=True)
class Item:
    """One page, table or figure.

    Attributes
    ----------
    kind
        A key of `PAGES`, `TABLES` or `FIGURES`.
    name
        What its files are called.
    title
        Its heading; empty for the kind's own.
    where
        Axis -> the names to show, in this order; an axis that is not here shows all. Baselines
        are always shown.
    tasks, metrics
        The tasks and metrics to show, in this order; none means all, or the kind's own choice.
    batch_size
        The batch size at which speed is shown; None means all, or the smallest.
    speed_up_of
        The initializer whose speed-up is a last row of each source model.
    over
        What curves of training are drawn over: `steps` or `tokens`.
    tokenizers
        Those to show, in this order; none means all.
    compared_with
        The tokenizers that each has a column of changes from.
    """

    kind: str
    name: str
    title: str = ""
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    batch_size: int | None = None
    speed_up_of: str | None = None
    over: str = "steps"
    tokenizers: tuple[str, ...] = ()
    compared_with: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """What it is one of: `pages`, `tables` or `figures`."""
        return "pages" if self.kind in PAGES else "tables" if self.kind in TABLES else "figures"

    @property
    def label(self) -> str:
        """What a list of items calls it."""
        return self.title or self.name.replace("_", " ").replace("-", " ").capitalize()


def read_items(given: Sequence[str | Mapping[str, Any]]) -> list[Item]:
    """The items of `report.items` in their order; none means `DEFAULT`.

    Raises
    ------
    UserError
        An item has an unknown kind, an option that its kind does not take, or another's name.
    """
    items: list[Item] = []
    for number, entry in enumerate(given or DEFAULT):
        where = f"report.items[{number}]"
        item = _read({"item": entry} if isinstance(entry, str) else entry, where)
        if item.name in [other.name for other in items]:
            raise UserError(f"{where}: there is a '{item.name}' already; give it a name of its own")
        items.append(item)
    return items


def check_items(
    items: Sequence[Item],
    blocks: Sequence[Mapping[str, Any]],
    tasks: Collection[str],
    fragmentation: Mapping[str, Sequence[str]],
) -> None:
    """Check that items ask for what a study has.

    Parameters
    ----------
    blocks
        The study's `cells`: lists of names by what a config calls them.
    tasks
        The names of the tasks that it runs.
    fragmentation
        The `tokenizers` that it compares without a model, and in which `languages`.

    Raises
    ------
    UserError
        An item names something that no cell of the study has, or a task that it does not run, or
        a tokenizer that it does not compare.
    """
    for number, item in enumerate(items):
        where = f"report.items[{number}]"
        for axis, names in item.where.items():
            known = dict.fromkeys(name for block in blocks for name in block[LISTS[axis]])
            if axis == "language":
                known |= dict.fromkeys(fragmentation["languages"])
            for name in names:
                if name not in known:
                    raise unknown(f"{where}.where.{LISTS[axis]}", name, known, "of this study")
        for task in item.tasks:
            if task not in tasks:
                raise unknown(f"{where}.tasks", task, tasks, "run by this study")
        for option in ("tokenizers", "compared_with"):
            for name in getattr(item, option):
                if name not in fragmentation["tokenizers"]:
                    compared = fragmentation["tokenizers"]
                    raise unknown(f"{where}.{option}", name, compared, "compared by this study")
        initializers = [name for block in blocks for name in block["initializers"]]
        if item.speed_up_of is not None and item.speed_up_of not in initializers:
            raise unknown(f"{where}.speed_up_of", item.speed_up_of, initializers, "of this study")


def _read(entry: Mapping[str, Any], where: str) -> Item:
    kind = entry["item"]
    kinds = {**PAGES, **TABLES, **FIGURES}
    if kind not in kinds:
        raise unknown(where, kind, [*kinds])
    options = kinds[kind]
    # A config whose defaults were filled in has every key.
    given = {name for name in _OPTIONS if entry.get(name)}
    if extra := sorted(given - set(options)):
        raise UserError(f"{where}: '{kind}' takes no {extra[0]}")
    for name in entry.get("metrics") or ():
        if name not in _METRICS.get(kind, (name,)):
            raise unknown(f"{where}.metrics", name, _METRICS[kind])
    chosen = entry.get("where") or {}
    return Item(
        kind=kind,
        name=entry.get("name") or kind,
        title=entry.get("title") or "",
        where={axis: tuple(chosen[name]) for axis, name in LISTS.items() if chosen.get(name)},
        tasks=tuple(entry.get("tasks") or ()),
        metrics=tuple(entry.get("metrics") or ()),
        batch_size=entry.get("batch_size"),
        speed_up_of=entry.get("speed_up_of"),
        over=entry.get("over") or "steps",
        tokenizers=tuple(entry.get("tokenizers") or ()),
        compared_with=tuple(entry.get("compared_with") or ()),
    )
