"""A strategy: how a cell is trained, as plain data.

Two-stage tuning, 2x2 LS and progressive tuning are lists of phases; none has its own code path.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from pydantic import Field, Strict, model_serializer, model_validator

from lexigraft.errors import UserError
from lexigraft.settings import KeyedError, Settings, plain, validate
from lexigraft.training.phase_settings import (
    AMOUNTS,
    MONOLINGUAL,
    PARTS,
    AdapterSettings,
    AimSettings,
    AlmSettings,
    Lora,
    Phase,
    left_out,
)

# Default settings of a phase with this objective, or that trains this.
_BY_DEFAULT: dict[str, type[Settings]] = {
    "adapter": AdapterSettings, "aim": AimSettings, "alm": AlmSettings,
}  # fmt: skip


class Curve(Settings):
    """Held-out sentences scored during training."""

    sentences: int = Field(
        64, ge=1, description="number of held-out sentences, and of English sentences"
    )
    points: int = Field(
        10, ge=0, description="number of measurements between the start and the end"
    )


class StrategyResources(Settings):
    """Factors on the `resources` of the source model that a training job requests."""

    time: float = Field(1.0, gt=0, description="factor on the time limit of the source model")
    memory: float = Field(1.0, gt=0, description="factor on the source model's `training_mb`")


class Strategy(Settings):
    """Phases, and their common settings. Defaults are those of Yamaguchi et al. (lowres), Table 6.

    A phase may override `batch_sequences`, `learning_rate` and `lora`; once validated, each phase
    has its own.
    """

    phases: Annotated[tuple[Phase, ...], Strict(False)] = Field(
        description="a list of phases, trained one after the other. `[]` trains nothing"
    )
    epochs: float = Field(2.0, gt=0, description="passes over the text")
    tokens: int | None = left_out(
        None,
        "train on about this many tokens, whatever number of `epochs` that is. Vocabularies are "
        "then compared at equal cost, not on equal text",
        ge=1,
    )
    tokens_per_language: int | None = left_out(
        None,
        "like `tokens`, multiplied by the number of members of a group: a strategy for groups of "
        "any size",
        ge=1,
    )
    sentences: int | None = Field(
        None, ge=1, description="train on the first N sentences. `null` means all"
    )
    batch_sequences: int = Field(8, ge=1, description="sequences per optimizer step")
    learning_rate: float = Field(
        1e-4, gt=0, description="AdamW's peak rate, after warm-up. Gradients are clipped to norm 1"
    )
    optimizer: Literal["adamw", "adamw-8bit"] = left_out(
        "adamw",
        "`adamw-8bit` keeps AdamW's moments in 8 bits, those of embeddings in 32 ([for small "
        "GPUs](../docs/running.md#adamw-in-8-bits))",
    )
    weight_decay: float = Field(
        0.01, ge=0, description="weight decay of AdamW, on all parameters except norms and biases"
    )
    epsilon: float = left_out(
        1e-8, "epsilon of AdamW, which is added to the root of its second moment", gt=0
    )
    schedule: Literal["cosine", "linear", "wsd", "constant"] = Field(
        "cosine",
        description="schedule of the learning rate. All but the last end at zero; `wsd` (warm-up, "
        "stable, decay) stays at the peak until its `decay`",
    )
    decay: float = left_out(
        0.1,
        "for schedule `wsd`: share of the steps, at the end, in which the rate falls like a cosine",
        gt=0,
        le=1,
    )
    schedule_over: Literal["phase", "strategy"] = Field(
        "phase", description="one schedule per phase, or one for all phases"
    )
    warmup: float = Field(
        0.05,
        ge=0,
        le=1,
        description="share of the steps in which the learning rate rises linearly to its peak, "
        "starting with the first step",
    )
    lora: Lora = Field(
        default_factory=lambda: Lora(r=8, alpha=32.0, dropout=0.05),
        description="rank, scale and dropout of the `lora` adapters",
    )
    gradient_checkpointing: bool = Field(
        True, description="recompute activations: less memory, about a third more time"
    )
    packing: Literal["joined", "apart"] = Field(
        "joined",
        description="`joined`: the documents of a sequence attend to those before them, as in "
        "Yamaguchi et al.; `apart`: no document attends to another, and its first token is not "
        "predicted. Some architectures do not support the latter",
    )
    checkpoints: int = Field(
        1,
        ge=1,
        description="number of checkpoints that are kept, equally spaced. The last one is the "
        "trained cell",
    )
    resources: StrategyResources = Field(
        default_factory=StrategyResources,
        description="what a cluster job requests. It does not change results",
    )
    curve: Curve = Field(
        default_factory=Curve, description="the held-out curve that is recorded during training"
    )

    @model_serializer(mode="plain")
    def given(self) -> dict[str, Any]:
        """The given settings, without `epochs` if each phase has its own amount."""
        own = super().given()
        if any(phase.has_own_amount for phase in self.phases):
            del own["epochs"]
        return own

    @model_validator(mode="after")
    def _phases_fit_together(self) -> "Strategy":
        self._check_amounts()
        self._check_schedule()
        for number, phase in enumerate(self.phases):
            if number and "adapter" in phase.trainable:
                key = f"phases[{number}].trainable"
                raise KeyedError(key, "only the first phase can train an adapter; put it first")
            if phase.anchor and "adapter" in self.phases[0].trainable:
                reason = "rows computed by an adapter have no other initial values; remove 'anchor'"
                raise KeyedError(f"phases[{number}].anchor", reason)
        found = (phase_teacher(plain(phase), "the cell's own source") for phase in self.phases)
        names = sorted({name for name in found if name})
        if len(names) > 1:
            raise KeyedError(
                "phases", f"use the teachers {' and '.join(names)}; a cell can have only one"
            )
        # What phases inherit. As plain data, they have only what the user gave them.
        completed = []
        for phase in self.phases:
            lora = self.lora
            if phase.lora is not None:
                own = phase.lora.model_fields_set
                lora = _filled(phase.lora, **{n: v for n, v in self.lora if n not in own})
            defaults = {
                key: kind()
                for key, kind in _BY_DEFAULT.items()
                if key in (phase.objective, *phase.trainable) and getattr(phase, key) is None
            }
            shared = {"batch_sequences": phase.batch_sequences or self.batch_sequences,
                      "learning_rate": phase.learning_rate or self.learning_rate}  # fmt: skip
            completed.append(_filled(phase, **shared, lora=lora, **defaults))
        self.__dict__["phases"] = tuple(completed)
        self._check_converged()
        return self

    def _check_converged(self) -> None:
        """Check that a phase that may end early is followed by one that can use its sequences."""
        for number, phase in enumerate(self.phases):
            if phase.converged is None:
                continue
            where = f"phases[{number}].converged"
            if phase is self.phases[-1]:
                raise KeyedError(where, "no later phase can take its remaining steps; remove it")
            if len(phase.data) > 1:
                raise KeyedError(
                    where, "the phase reads several texts; give it only one, or remove this key"
                )
            after = self.phases[number + 1]
            for key in ("length", "batch_sequences", "data"):
                if getattr(phase, key) != getattr(after, key):
                    reason = f"phases[{number + 1}] has a different {key}; give both the same"
                    raise KeyedError(where, reason)

    def _check_schedule(self) -> None:
        """Check that the parts of the schedule fit into the steps."""
        if self.schedule != "wsd" and "decay" in self.model_fields_set:
            reason = "only schedule wsd takes this key; remove 'decay'"
            raise KeyedError("decay", reason)
        if self.schedule == "wsd" and self.warmup + self.decay > 1:
            reason = (
                f"exceeds all steps together with a warmup of {self.warmup:g}; lower one of the two"
            )
            raise KeyedError("decay", reason)

    def _check_amounts(self) -> None:
        """Check that the phases share the strategy's amount, or each has its own."""
        given = [key for key in AMOUNTS if key in self.model_fields_set]
        if {"tokens", "tokens_per_language"} <= {*given}:
            reason = "'tokens' already sets the amount of training; remove one of the two"
            raise KeyedError("tokens_per_language", reason)
        own = [phase.has_own_amount for phase in self.phases]
        if any(own):
            if not all(own):
                key, keys = f"phases[{own.index(False)}]", ", ".join(AMOUNTS)
                reason = f"needs one of {keys}, because another phase has one of its own"
                raise KeyedError(key, reason)
            if given:
                reason = "every phase has an amount of its own; remove this one"
                raise KeyedError(given[0], reason)
            return
        total = sum(phase.share for phase in self.phases)
        if self.phases and abs(total - 1) > 1e-6:
            raise KeyedError("phases", f"their shares add up to {total:g}; they must add up to 1")


def read_strategy(settings: Mapping[str, Any], where: str = "strategy") -> Strategy:
    """Read one entry of `config/strategies.yaml`, which error messages call `where`.

    Raises a UserError if a key is unknown or missing, or a value is out of its range.
    """
    return validate(Strategy, settings, where)


def check_optimizer(
    settings: Mapping[str, Any], sharded: bool, where: str, *, offload: bool = False
) -> None:
    """Raise a UserError if the optimizer of a strategy, as plain data, cannot be used.

    `sharded` and `offload` say how it is trained, see `distributed.shard`.
    """
    if settings.get("optimizer") != "adamw-8bit":
        return
    if find_spec("bitsandbytes") is None:
        needed = "install its package: pip install bitsandbytes"
    elif sharded:
        needed = (
            "set training_sharded: false and remove full_training_gpus, or use adamw; the moments "
            "of a weight cannot be divided"
        )
    elif offload:
        needed = "unset offload, or use adamw; it does not run on a CPU"
    else:
        return
    raise UserError(f"{where}.optimizer: adamw-8bit cannot be used; {needed}")


def of_new_vocabulary(settings: Mapping[str, Any]) -> list[str]:
    """What one entry of `config/strategies.yaml` trains that exists only with a new vocabulary."""
    trained = {part for phase in settings["phases"] for part in phase["trainable"] if part in PARTS}
    return sorted(trained & {"adapter", "new-rows"})


def trains_whole_model(settings: Mapping[str, Any]) -> bool:
    """Whether one entry of `config/strategies.yaml` trains all parameters of a model at once.

    VocADT's dense adapters count too: they have about as many.
    """
    forms = [
        (phase.get("adapter") or {}).get("form", "dense")
        for phase in settings["phases"]
        if "adapter" in phase["trainable"]
    ]
    return "dense" in forms or any("all" in phase["trainable"] for phase in settings["phases"])


def samples_of(settings: Mapping[str, Any]) -> list[str]:
    """Entries of samples that the phases of one entry of `config/strategies.yaml` read."""
    data = (phase.get("data", MONOLINGUAL) for phase in settings["phases"])
    names = (name for given in data for name in ([given] if isinstance(given, str) else given))
    return [name for name in dict.fromkeys(names) if name != MONOLINGUAL]


def teacher_of(settings: Mapping[str, Any], source: str | None = None) -> str | None:
    """The source model that teaches in the phases of one entry of `config/strategies.yaml`.

    The cell's own `source` teaches objective `aim`, and `alm` where the entry names no teacher.
    """
    names = (phase_teacher(phase, source) for phase in settings["phases"])
    return next((name for name in names if name), None)


def phase_teacher(phase: Mapping[str, Any], source: str | None = None) -> str | None:
    """The source model that teaches in one phase, see `teacher_of`."""
    if phase.get("objective") == "alm":
        return (phase.get("alm") or {}).get("teacher") or source
    if phase.get("objective") == "aim":
        return source
    return (phase.get("distill") or {}).get("teacher")


def _filled(settings: Settings, **values: Any) -> Any:
    """A copy with values that count as not given by the user."""
    return type(settings).model_construct(settings.model_fields_set, **dict(settings) | values)
