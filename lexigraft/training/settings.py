"""A strategy: how a cell is trained, as plain data. Two-stage tuning, 2x2 LS and progressive
tuning are lists of phases; none of them is a code path of its own."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BeforeValidator,
    Field,
    Strict,
    Tag,
    field_validator,
    model_serializer,
    model_validator,
)

from lexigraft.errors import UserError
from lexigraft.settings import KeyedError, Settings, by_shape, optional, plain, validate
from lexigraft.training.registry import objective, objectives

Part = Literal["embeddings", "head", "new-rows", "lora", "outside-layers", "all", "adapter"]
PARTS = get_args(Part)
AMOUNTS = ("tokens", "tokens_per_language", "epochs")  # of training: a strategy's, or a phase's own
_WITH_ROWS = {"embeddings", "head", "new-rows", "outside-layers", "all"}
MONOLINGUAL = "monolingual"  # the corpus; every other name in `data` is an entry of samples
Share = Annotated[float, Field(gt=0, le=1)]


def _left_out(default: Any, description: str, **bounds: Any) -> Any:
    """A field that plain data has only where the user gives it."""
    return Field(default, description=description, json_schema_extra={"left_out": True}, **bounds)


class Lora(Settings):
    """The adapters of LoRA."""

    r: int = _left_out(8, "rank of the adapters", ge=1)
    alpha: float = _left_out(32.0, "`alpha / r` multiplies the update", gt=0)
    dropout: float = _left_out(0.05, "probability of dropout on the adapters' input", ge=0, lt=1)
    rslora: bool = _left_out(
        False, "rsLoRA (Kalajdzievski 2023): `alpha / √r` multiplies the update instead"
    )
    dora: bool = _left_out(
        False,
        "DoRA (Liu et al. 2024): norms of weights are trained beside their directions",
    )
    learning_rate_ratio: float = _left_out(
        1.0,
        "LoRA+ (Hayou et al. 2024): how many times the learning rate the adapters' second "
        "matrices have",
        ge=1,
    )


class AdapterSettings(Settings):
    """The adapters of VocADT (Han et al. 2025); alpha is that of its Eq. 4."""

    form: Literal["dense", "sparse"] = Field(
        "dense",
        description="`dense` trains all weights of a recipe, `sparse` the largest ones of each row "
        "of the initializer's recipe",
    )
    entries: int = Field(
        256,
        ge=1,
        description="weights of a row. A sparse adapter trains no others; of a dense one no others "
        "are stored",
    )
    alpha: float = Field(
        0.1,
        ge=0,
        description="weight of the auxiliary loss, which holds shared tokens where they were",
    )


class DistillSettings(Settings):
    """The source model that teaches, and its part of the loss."""

    teacher: str = Field(description="a name of sources.yaml. It must have the cell's vocabulary")
    temperature: float = Field(1.0, gt=0, description="of the distributions of both models")
    weight: float = Field(
        0.5,
        gt=0,
        le=1,
        description="the teacher's part of the loss: (1 - weight) x nats + weight x temperature² x "
        "KL(teacher || model)",
    )


class AlmSettings(Settings):
    """Approximate likelihood matching (Minixhofer et al. 2025): the teacher, and the loss."""

    teacher: str = optional(
        "a name of sources.yaml, of any vocabulary. By default the cell's own source"
    )
    temperature: float = Field(
        100.0, gt=0, description="by which the log-probabilities of chunks are divided"
    )
    weight: float = Field(1.0, gt=0, description="of the matching loss")
    next_weight: float = Field(0.0, ge=0, description="of the next tokens' loss beside it")
    teacher_length: int = optional(
        "the most tokens of a sequence that the teacher reads; what is beyond has no part in the "
        "matching loss. By default four times the phase's `length`, or what the teacher holds, if "
        "that is less",
        ge=8,
    )


class Layers(Settings):
    """Whole decoder layers."""

    layers: Annotated[tuple[int, ...], Strict(False)] = Field(
        min_length=1, description="whole numbers. Negative ones count from the last layer"
    )


Trained = Annotated[
    Annotated[Part, Tag("@text")] | Annotated[Layers, Tag("@mapping")],
    by_shape(f"needs one of {', '.join(PARTS)} or {{layers: [0, 1, -2, -1]}}"),
]


def _as_shares(value: Any) -> Any:
    return {value: 1.0} if isinstance(value, str) else value


class Phase(Settings):
    """One stretch of training with one set of trainable parameters and one schedule."""

    trainable: Annotated[tuple[Trained, ...], Strict(False)] = Field(
        min_length=1,
        description=f"a list of: {', '.join(PARTS)}, or {{layers: [0, 1, -2, -1]}}. `lora` adapts "
        "every linear layer but the head; `outside-layers` is all that is in no decoder layer; "
        "`adapter` trains VocADT's recipes and leaves the model as it is; `new-rows` are the rows "
        "of new tokens in embeddings and head. Tied embeddings and head are trained once",
    )
    length: int = Field(ge=8, description="tokens of a training sequence")
    objective: Literal["alm", "clm", "distill", "mlm", "mtp"] = Field(
        "clm",
        description="what is predicted. `clm`: the next token; `mtp`: the token after it too, by "
        "an extra head; `mlm`: masked tokens, for sources of `kind: masked`; `distill`: the next "
        "token, and what a teacher predicts; `alm`: pieces of text as likely as a teacher of "
        "another vocabulary finds them",
    )
    data: Annotated[
        dict[str, Share],
        BeforeValidator(_as_shares, json_schema_input_type=str | dict[str, float]),
    ] = Field(
        default_factory=lambda: {MONOLINGUAL: 1.0},
        description="the text. `monolingual` is the language's corpus, other names are entries of "
        "its `samples`; or several with their shares of the sequences, such as `{monolingual: "
        "0.85, tasks: 0.15}`. The first one sets how many sequences there are",
    )
    share: Share = Field(
        1.0, description="part of the strategy's epochs or tokens. All shares add up to 1"
    )
    tokens: int = optional(
        "instead of `share`: train on about so many tokens of the first text. Every phase then has "
        "an amount of its own",
        ge=1,
    )
    tokens_per_language: int = optional("the same, times the members of a group", ge=1)
    epochs: float = optional("instead of `share`: passes over the first text", gt=0)
    batch_sequences: int = optional("instead of the strategy's", ge=1)
    learning_rate: float = optional("instead of the strategy's", gt=0)
    lora: Lora = optional("keys that differ from the strategy's")
    adapter: AdapterSettings | None = optional("of `trainable: [adapter]`: its adapters")
    distill: DistillSettings | None = optional("of objective `distill`: the teacher")
    alm: AlmSettings | None = optional("of objective `alm`: the teacher, and its loss")
    anchor: float = _left_out(
        0.0,
        "weight of a part of the loss that holds the trained rows of new tokens where their recipe "
        "put them: the mean of their squared distances from there",
        ge=0,
    )
    masking: float = _left_out(
        0.15,
        "of objective `mlm`: share of the tokens that are masked, anew at each visit",
        gt=0,
        lt=1,
    )
    extra_head: Literal["copied", "random"] = _left_out(
        "copied", "of objective `mtp`: how the extra head starts. Later phases continue with it"
    )
    extra_logits: Literal["as-head", "raw"] = _left_out(
        "as-head",
        "of objective `mtp`: `as-head` treats the extra logits like the model's own, "
        "which Gemma 2 caps",
    )

    @model_serializer(mode="plain")
    def given(self) -> dict[str, Any]:
        """The same; one text alone by its name, and no share beside an amount of its own."""
        own = super().given()
        if self.has_own_amount:
            del own["share"]
        return own | {"data": next(iter(self.data)) if len(self.data) == 1 else self.data}

    @property
    def has_own_amount(self) -> bool:
        """Whether the phase says how long it is, whatever the strategy does."""
        return any(getattr(self, key) is not None for key in AMOUNTS)

    @property
    def layers(self) -> tuple[int, ...]:
        """Indices of whole decoder layers, from the front or, negative, from the back."""
        chosen = (item.layers for item in self.trainable if isinstance(item, Layers))
        return tuple(index for layers in chosen for index in layers)

    @field_validator("data")
    @classmethod
    def _shares_add_up(cls, shares: dict[str, float]) -> dict[str, float]:
        total = sum(shares.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(f"the shares add up to {total:g}; they must add up to 1")
        return shares

    @field_validator("trainable")
    @classmethod
    def _fit_together(cls, items: tuple[str | Layers, ...]) -> tuple[str | Layers, ...]:
        parts = [item for item in items if isinstance(item, str)]
        alone = {"all": "already holds every parameter", "adapter": "keeps the model as it is"}
        for part, reason in alone.items():
            if part in parts and len(items) > 1:
                raise ValueError(f"'{part}' {reason}; list nothing beside it")
        whole = {"embeddings", "head", "outside-layers"} & set(parts)
        if "new-rows" in parts and whole:
            raise ValueError(f"'{min(whole)}' already holds the new rows; take out 'new-rows'")
        if "lora" in parts and len(parts) < len(items):
            raise ValueError(
                "'lora' adapts every linear layer, so whole layers need a phase of their own"
            )
        return items

    @model_validator(mode="after")
    def _has_one_amount(self) -> "Phase":
        given = [key for key in ("share", *AMOUNTS) if key in self.model_fields_set]
        if len(given) > 1:
            raise KeyedError(given[1], f"'{given[0]}' says how long the phase is; take one out")
        return self

    @model_validator(mode="after")
    def _has_what_its_objective_needs(self) -> "Phase":
        given, own = self.model_fields_set, objective(self.objective)
        for name in objectives():
            for key in objective(name).options:
                if key in given and key not in own.options:
                    reason = f"only objective {name} takes this key; take out '{key}'"
                    raise KeyedError(key, reason)
        if self.objective == "mtp" and "new-rows" in self.trainable:
            reason = "new rows have no head of their own to copy; take out 'mtp'"
            raise KeyedError("objective", reason)
        if self.objective == "mtp" and "adapter" in self.trainable:
            reason = "an adapter has no head of its own to copy; take out 'mtp'"
            raise KeyedError("objective", reason)
        if self.objective == "distill" and self.distill is None:
            raise KeyedError("distill.teacher", "missing; name an entry of sources.yaml")
        if "adapter" not in self.trainable and "adapter" in given:
            raise KeyedError("adapter", "this phase trains no adapter; take out 'adapter'")
        if self.anchor and not _WITH_ROWS.intersection(
            item for item in self.trainable if isinstance(item, str)
        ):
            raise KeyedError("anchor", "this phase trains no rows; take out 'anchor'")
        return self


class Curve(Settings):
    """Held-out sentences scored during training."""

    sentences: int = Field(64, ge=1, description="held-out sentences, and as many English ones")
    points: int = Field(10, ge=0, description="measurements between the start and the end")


class StrategyResources(Settings):
    """How many times what its source model's `resources` say a training job asks for."""

    time: float = Field(1.0, gt=0, description="times the time limit that its source model has")
    memory: float = Field(1.0, gt=0, description="times the source's `training_mb`")


class Strategy(Settings):
    """Phases, and what they share. Defaults are those of Yamaguchi et al. (lowres), Table 6.

    A phase may override `batch_sequences`, `learning_rate` and `lora`: each phase that is read has
    its own.
    """

    phases: Annotated[tuple[Phase, ...], Strict(False)] = Field(
        description="a list of phases, trained one after the other. `[]` trains nothing"
    )
    epochs: float = Field(2.0, gt=0, description="passes over the text")
    tokens: int | None = _left_out(
        None,
        "train on about so many tokens, whatever number of `epochs` that is. Vocabularies are then "
        "compared at equal cost, not on equal text",
        ge=1,
    )
    tokens_per_language: int | None = _left_out(
        None,
        "the same, times the members of a group: a strategy for groups of any size",
        ge=1,
    )
    sentences: int | None = Field(
        None, ge=1, description="train on the first N sentences. `null` is all"
    )
    batch_sequences: int = Field(8, ge=1, description="sequences of an optimizer step")
    learning_rate: float = Field(
        1e-4, gt=0, description="AdamW's highest, after warm-up. Gradients are clipped to norm 1"
    )
    optimizer: Literal["adamw", "adamw-8bit"] = _left_out(
        "adamw",
        "`adamw-8bit` holds AdamW's moments in 8 bits, those of embeddings in 32 "
        "([for small GPUs](../docs/running.md#adamw-in-8-bits))",
    )
    weight_decay: float = Field(
        0.01, ge=0, description="AdamW's, on all parameters but norms and biases"
    )
    epsilon: float = _left_out(
        1e-8, "AdamW's, which is added to the root of its second moment", gt=0
    )
    schedule: Literal["cosine", "linear", "wsd", "constant"] = Field(
        "cosine",
        description="of the learning rate. All but the last end at zero; `wsd` (warm-up, stable, "
        "decay) stays at the highest rate until its `decay`",
    )
    decay: float = _left_out(
        0.1,
        "of schedule `wsd`: share of the steps, at the end, in which the rate falls like a cosine",
        gt=0,
        le=1,
    )
    schedule_over: Literal["phase", "strategy"] = Field(
        "phase", description="one schedule for each phase, or one for all of them"
    )
    warmup: float = Field(
        0.05,
        ge=0,
        le=1,
        description="share of the steps before the highest rate, in which it rises evenly from the "
        "first step on",
    )
    lora: Lora = Field(
        default_factory=lambda: Lora(r=8, alpha=32.0, dropout=0.05),
        description="rank, scale and dropout of the adapters of `lora`",
    )
    gradient_checkpointing: bool = Field(
        True, description="compute activations again: less memory, about a third more time"
    )
    packing: Literal["joined", "apart"] = Field(
        "joined",
        description="`joined`: the documents of a sequence see those before them, as in Yamaguchi "
        "et al.; `apart`: none sees another, and its first token is not predicted. Not every "
        "architecture can do the latter",
    )
    checkpoints: int = Field(
        1, ge=1, description="how many are kept, at equal distances. The last is the trained cell"
    )
    resources: StrategyResources = Field(
        default_factory=StrategyResources,
        description="what a cluster job asks for. It changes no result",
    )
    curve: Curve = Field(
        default_factory=Curve, description="of the held-out curve drawn during training"
    )

    @model_serializer(mode="plain")
    def given(self) -> dict[str, Any]:
        """The same, without `epochs` where each phase has an amount of its own."""
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
                reason = "rows that an adapter makes have no other start; take out 'anchor'"
                raise KeyedError(f"phases[{number}].anchor", reason)
        found = (phase_teacher(plain(phase), "the cell's own source") for phase in self.phases)
        names = sorted({name for name in found if name})
        if len(names) > 1:
            raise KeyedError("phases", f"the teachers {' and '.join(names)}; a cell has one")
        # What phases take over. As plain data they have only what the user gave them.
        completed = []
        for phase in self.phases:
            lora, adapter, alm = self.lora, phase.adapter, phase.alm
            if phase.lora is not None:
                own = phase.lora.model_fields_set
                lora = _filled(phase.lora, **{n: v for n, v in self.lora if n not in own})
            if "adapter" in phase.trainable and adapter is None:
                adapter = AdapterSettings()
            if phase.objective == "alm" and alm is None:
                alm = AlmSettings()
            shared = {"batch_sequences": phase.batch_sequences or self.batch_sequences,
                      "learning_rate": phase.learning_rate or self.learning_rate}  # fmt: skip
            completed.append(_filled(phase, **shared, lora=lora, adapter=adapter, alm=alm))
        self.__dict__["phases"] = tuple(completed)
        return self

    def _check_schedule(self) -> None:
        """Its parts fit into the steps."""
        if self.schedule != "wsd" and "decay" in self.model_fields_set:
            reason = "only schedule wsd takes this key; take out 'decay'"
            raise KeyedError("decay", reason)
        if self.schedule == "wsd" and self.warmup + self.decay > 1:
            reason = f"with a warmup of {self.warmup:g} more than all steps; lower one of the two"
            raise KeyedError("decay", reason)

    def _check_amounts(self) -> None:
        """The phases share the strategy's amount, or each of them has its own."""
        given = [key for key in AMOUNTS if key in self.model_fields_set]
        if {"tokens", "tokens_per_language"} <= {*given}:
            reason = "'tokens' says how much is trained on; take one out"
            raise KeyedError("tokens_per_language", reason)
        own = [phase.has_own_amount for phase in self.phases]
        if any(own):
            if not all(own):
                key, keys = f"phases[{own.index(False)}]", ", ".join(AMOUNTS)
                reason = f"needs one of {keys}, as another phase has one of its own"
                raise KeyedError(key, reason)
            if given:
                reason = "every phase has an amount of its own; take this one out"
                raise KeyedError(given[0], reason)
            return
        total = sum(phase.share for phase in self.phases)
        if self.phases and abs(total - 1) > 1e-6:
            raise KeyedError("phases", f"their shares add up to {total:g}; they must add up to 1")


def read_strategy(settings: Mapping[str, Any], where: str = "strategy") -> Strategy:
    """One entry of `config/strategies.yaml`, which error messages call `where`.

    Raises a UserError if a key is unknown or missing, or a value is out of its range.
    """
    return validate(Strategy, settings, where)


def check_optimizer(
    settings: Mapping[str, Any], sharded: bool, where: str, *, offload: bool = False
) -> None:
    """Raise a UserError if the optimizer of a strategy, as plain data, cannot be had.

    `sharded` and `offload` say how it is trained, see `distributed.shard`.
    """
    if settings.get("optimizer") != "adamw-8bit":
        return
    if find_spec("bitsandbytes") is None:
        needed = "install its package: pip install bitsandbytes"
    elif sharded:
        needed = (
            "set training_sharded: false and take full_training_gpus out, or use adamw; it does "
            "not divide a weight's moments"
        )
    elif offload:
        needed = "unset offload, or use adamw; it does not compute on a CPU"
    else:
        return
    raise UserError(f"{where}.optimizer: adamw-8bit cannot be used; {needed}")


def of_new_vocabulary(settings: Mapping[str, Any]) -> list[str]:
    """What one entry of `config/strategies.yaml` trains that only a new vocabulary has."""
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

    Objective `alm` is taught by the cell's own `source` where the entry names no teacher.
    """
    names = (phase_teacher(phase, source) for phase in settings["phases"])
    return next((name for name in names if name), None)


def phase_teacher(phase: Mapping[str, Any], source: str | None = None) -> str | None:
    """The same of one phase."""
    if phase.get("objective") == "alm":
        return (phase.get("alm") or {}).get("teacher") or source
    return (phase.get("distill") or {}).get("teacher")


def _filled(settings: Settings, **values: Any) -> Any:
    """A copy with values that count as not given by the user."""
    return type(settings).model_construct(settings.model_fields_set, **dict(settings) | values)
