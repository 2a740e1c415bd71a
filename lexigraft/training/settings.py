"""A strategy: how a cell is trained, as plain data. Two-stage tuning, 2x2 LS and progressive
tuning are lists of phases; none of them is a code path of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lexigraft.errors import UserError
from lexigraft.training.setting_values import check_value, mapping, read_values

PARTS = ("embeddings", "head", "new-rows", "lora", "outside-layers", "all", "adapter")
MONOLINGUAL = "monolingual"  # the corpus; every other name in `data` is an entry of samples


@dataclass(frozen=True)
class Lora:
    """Rank, scale (alpha / r multiplies the update) and dropout of the adapters."""

    r: int = 8
    alpha: float = 32
    dropout: float = 0.05


@dataclass(frozen=True)
class AdapterSettings:
    """VocADT's adapters: their form, the most weights of a row, and alpha of Eq. 4 (paper 001).

    Of a sparse adapter no other weights are trained, of a dense one no others are stored.
    """

    form: str = "dense"
    entries: int = 256
    alpha: float = 0.1


@dataclass(frozen=True)
class DistillSettings:
    """The source model that teaches, the temperature of both, and the part of the loss it has."""

    teacher: str
    temperature: float = 1.0
    weight: float = 0.5


@dataclass(frozen=True)
class Phase:
    """One stretch of training with one set of trainable parameters and one schedule.

    `layers` are indices of whole decoder layers, from the front or, negative, from the back;
    `share` is this phase's part of the strategy's epochs; `length` is in tokens. `data` gives each
    text its share of the sequences; the first one sets how many there are. The extra head of
    objective `mtp` starts as `extra_head` says in the first such phase, and later ones go on with
    it; `extra_logits` says whether the model treats its logits as those of its own head. `masking`
    is the share of tokens that objective `mlm` masks; `distill` is for the objective of that name.
    """

    trainable: tuple[str, ...]
    layers: tuple[int, ...]
    length: int
    objective: str = "clm"
    extra_head: str = "copied"
    extra_logits: str = "as-head"
    masking: float = 0.15
    distill: DistillSettings | None = None
    data: Mapping[str, float] = field(default_factory=lambda: {MONOLINGUAL: 1.0})
    share: float = 1.0
    learning_rate: float = 1e-4
    lora: Lora = Lora()
    adapter: AdapterSettings | None = None


@dataclass(frozen=True)
class Curve:
    """Held-out sentences scored during training, and how often between the start and the end."""

    sentences: int = 64
    points: int = 10


@dataclass(frozen=True)
class Strategy:
    """Phases, and what they share. The defaults are those of paper 000, Table 6.

    `checkpoints` are kept at equal distances; the last one is the trained cell itself. `packing`
    says whether the documents of a sequence see each other.
    """

    phases: tuple[Phase, ...] = ()
    epochs: float = 2
    sentences: int | None = None
    batch_sequences: int = 8
    weight_decay: float = 0.01
    schedule: str = "cosine"
    schedule_over: str = "phase"
    warmup: float = 0.05
    gradient_checkpointing: bool = True
    packing: str = "joined"
    checkpoints: int = 1
    curve: Curve = field(default_factory=Curve)


def read_strategy(settings: Mapping[str, Any]) -> Strategy:
    """Turn one entry of `config/strategies.yaml` into a `Strategy`.

    `learning_rate` and `lora` are given for all phases, and a phase may override them. `resources`
    is what a job asks a cluster for, and no setting of training.

    Raises
    ------
    UserError
        A key is unknown or missing, or a value is out of its range.
    """
    given = dict(mapping(settings, "strategy"))
    given.pop("resources", None)
    phases = given.pop("phases", None)
    if not isinstance(phases, list | tuple):
        raise UserError("strategy: 'phases' must be a list; [] trains nothing")
    shared = {"learning_rate": given.pop("learning_rate", 1e-4), "lora": given.pop("lora", {})}
    curve = read_values(Curve, given.pop("curve", {}), "strategy.curve", {})
    read = tuple(_phase(phase, f"strategy.phases[{i}]", shared) for i, phase in enumerate(phases))
    shares = sum(phase.share for phase in read)
    if read and abs(shares - 1) > 1e-6:
        raise UserError(f"strategy: the phases' shares add up to {shares:g}; they must add up to 1")
    strategy = read_values(Strategy, given, "strategy", {"phases": read, "curve": curve})
    _check_adapter(strategy)
    _check_teachers(strategy)
    return strategy


def of_new_vocabulary(settings: Mapping[str, Any]) -> list[str]:
    """What one entry of `config/strategies.yaml` trains that only a new vocabulary has."""
    trained = {part for phase in settings["phases"] for part in phase["trainable"] if part in PARTS}
    return sorted(trained & {"adapter", "new-rows"})


def samples_of(settings: Mapping[str, Any]) -> list[str]:
    """Entries of samples that the phases of one entry of `config/strategies.yaml` read."""
    data = (phase.get("data", MONOLINGUAL) for phase in settings["phases"])
    names = (name for given in data for name in ([given] if isinstance(given, str) else given))
    return [name for name in dict.fromkeys(names) if name != MONOLINGUAL]


def teacher_of(settings: Mapping[str, Any]) -> str | None:
    """The source model that teaches in the phases of one entry of `config/strategies.yaml`."""
    taught = (phase["distill"] for phase in settings["phases"] if phase.get("distill"))
    return next((distill["teacher"] for distill in taught), None)


def _phase(settings: Any, place: str, shared: dict[str, Any]) -> Phase:
    given = {"learning_rate": shared["learning_rate"], **mapping(settings, place)}
    lora = {
        **mapping(shared["lora"], "strategy.lora"),
        **mapping(given.pop("lora", {}), f"{place}.lora"),
    }
    parts, layers = _trainable(given.pop("trainable", None), place)
    known = {
        "trainable": parts,
        "layers": layers,
        "data": _data(given.pop("data", MONOLINGUAL), place),
        "lora": read_values(Lora, lora, f"{place}.lora", {}),
    }
    if "length" not in given:
        raise UserError(f"{place}: 'length' is missing; give the tokens of a training sequence")
    for name in ("extra_head", "extra_logits"):
        if name in given and given.get("objective") != "mtp":
            raise UserError(f"{place}: only objective mtp has an extra head; take out '{name}'")
    if "new-rows" in parts and given.get("objective") == "mtp":
        raise UserError(f"{place}: new rows have no head of their own to copy; take out 'mtp'")
    if "masking" in given and given.get("objective") != "mlm":
        raise UserError(f"{place}: only objective mlm masks tokens; take out 'masking'")
    if "adapter" in parts:
        adapter = given.pop("adapter", {})
        known["adapter"] = read_values(AdapterSettings, adapter, f"{place}.adapter", {})
    elif "adapter" in given:
        raise UserError(f"{place}: it trains no adapter; take out 'adapter'")
    if given.get("objective") == "distill":
        known["distill"] = _distill(given.pop("distill", {}), f"{place}.distill")
    elif "distill" in given:
        raise UserError(f"{place}: only objective distill has a teacher; take out 'distill'")
    return read_values(Phase, given, place, known)


def _check_adapter(strategy: Strategy) -> None:
    """An adapter stands between the source's own matrices and a new vocabulary, and goes alone."""
    for number, phase in enumerate(strategy.phases):
        if phase.adapter is None:
            continue
        place = f"strategy.phases[{number}]"
        if number:
            raise UserError(f"{place}: only the first phase can train an adapter; put it first")
        if phase.objective == "mtp":
            raise UserError(f"{place}: an adapter has no head of its own to copy; take out 'mtp'")


def _distill(settings: Any, place: str) -> DistillSettings:
    given = dict(mapping(settings, place))
    teacher = given.pop("teacher", None)
    if not isinstance(teacher, str):
        raise UserError(f"{place}: 'teacher' is missing; name an entry of sources.yaml")
    return read_values(DistillSettings, given, place, {"teacher": teacher})


def _check_teachers(strategy: Strategy) -> None:
    names = sorted({phase.distill.teacher for phase in strategy.phases if phase.distill})
    if len(names) > 1:
        raise UserError(
            f"strategy: its phases have the teachers {' and '.join(names)}; a cell has one"
        )


def _data(value: Any, place: str) -> Mapping[str, float]:
    """Share of each text; a name alone has all."""
    shares = {value: 1.0} if isinstance(value, str) else mapping(value, f"{place}.data")
    for name, share in shares.items():
        check_value("share", share, f"{place}.data.{name}")
    if abs(sum(shares.values()) - 1) > 1e-6:
        raise UserError(
            f"{place}.data: the shares add up to {sum(shares.values()):g}; they must add up to 1"
        )
    return shares


def _trainable(value: Any, place: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    if not isinstance(value, list | tuple) or not value:
        raise UserError(
            f"{place}: 'trainable' must be a list of {', '.join(PARTS)} or {{layers: [...]}}"
        )
    parts: list[str] = []
    layers: list[int] = []
    for item in value:
        if isinstance(item, Mapping) and set(item) == {"layers"}:
            layers.extend(item["layers"])
        elif item in PARTS:
            parts.append(item)
        else:
            raise UserError(f"{place}: trainable has no '{item}'; it takes {', '.join(PARTS)}")
    if not all(isinstance(layer, int) and not isinstance(layer, bool) for layer in layers):
        raise UserError(f"{place}: layers must be whole numbers, not {layers}")
    if "all" in parts and (len(parts) > 1 or layers):
        raise UserError(f"{place}: 'all' already holds every parameter; list nothing beside it")
    if "adapter" in parts and (len(parts) > 1 or layers):
        raise UserError(f"{place}: 'adapter' keeps the model as it is; list nothing beside it")
    whole = {"embeddings", "head", "outside-layers"} & set(parts)
    if "new-rows" in parts and whole:
        raise UserError(f"{place}: '{min(whole)}' already holds the new rows; take out 'new-rows'")
    if "lora" in parts and layers:
        raise UserError(
            f"{place}: 'lora' adapts every linear layer, so whole layers need a phase of their own"
        )
    return tuple(parts), tuple(layers)
