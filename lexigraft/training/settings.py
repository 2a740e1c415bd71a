"""A strategy: how a cell is trained, as plain data.

Two-stage tuning, 2x2 LS and progressive tuning are lists of phases; none has its own code path.
"""

from collections.abc import Mapping
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

from lexigraft.settings import (
    KeyedError,
    Settings,
    by_shape,
    checked,
    optional,
    validate,
)
from lexigraft.training.registry import objective, objectives

Part = Literal["embeddings", "head", "new-rows", "lora", "outside-layers", "all", "adapter"]
PARTS = get_args(Part)
# Parts that include embeddings or head, whole or in part.
MATRIX_PARTS = ("embeddings", "head", "new-rows", "outside-layers", "all")
AMOUNTS = ("tokens", "tokens_per_language", "epochs")  # of training: a strategy's, or a phase's own
MONOLINGUAL = "monolingual"  # the corpus; every other name in `data` is an entry of samples
Share = Annotated[float, Field(gt=0, le=1)]


def left_out(default: Any, description: str, **bounds: Any) -> Any:
    """A field that plain data includes only if the user gives it; a class is its own default."""
    value = {"default_factory": default} if isinstance(default, type) else {"default": default}
    extra: Any = {"left_out": True}
    return Field(**value, description=description, json_schema_extra=extra, **bounds)


class Lora(Settings):
    """The adapters of LoRA."""

    r: int = left_out(8, "rank of the adapters", ge=1)
    alpha: float = left_out(32.0, "the update is multiplied by `alpha / r`", gt=0)
    dropout: float = left_out(0.05, "dropout probability on the adapters' input", ge=0, lt=1)
    rslora: bool = left_out(
        False, "rsLoRA (Kalajdzievski 2023): the update is multiplied by `alpha / √r` instead"
    )
    dora: bool = left_out(
        False,
        "DoRA (Liu et al. 2024): norms of weights are trained separately from their directions",
    )
    learning_rate_ratio: float = left_out(
        1.0,
        "LoRA+ (Hayou et al. 2024): learning rate of the adapters' second matrices `B`, as a "
        "multiple of that of the first ones",
        ge=1,
    )


class AdapterSettings(Settings):
    """The adapters of VocADT (Han et al. 2025); alpha is that of its Eq. 4."""

    form: Literal["dense", "sparse"] = Field(
        "dense",
        description="`dense` trains all weights of a recipe, `sparse` only the largest ones of "
        "each row of the initializer's recipe",
    )
    entries: int = Field(
        256,
        ge=1,
        description="number of weights per row. A sparse adapter trains only these; of a dense "
        "one, only these are stored",
    )
    alpha: float = Field(
        0.1,
        ge=0,
        description="weight of the auxiliary loss, which keeps shared tokens close to their "
        "original embeddings",
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
    """One stretch of training with one set of trainable parameters and one schedule.

    Keys that only phases with a certain objective have are fields of a subclass, which the
    objective declares. A mapping is validated as this subclass.
    """

    trainable: Annotated[tuple[Trained, ...], Strict(False)] = Field(
        min_length=1,
        description=f"a list of: {', '.join(PARTS)}, or {{layers: [0, 1, -2, -1]}}. `lora` adapts "
        "every linear layer except the head and routers, and fused experts; `outside-layers` is "
        "everything outside the decoder layers; `adapter` trains VocADT's recipes and leaves the "
        "model unchanged; `new-rows` are the rows of new tokens in embeddings and head. Tied "
        "embeddings and head are trained once",
    )
    length: int = Field(ge=8, description="tokens per training sequence")
    objective: str = Field("clm", description="what is predicted: the name of an objective, below")
    data: Annotated[
        dict[str, Share],
        BeforeValidator(_as_shares, json_schema_input_type=str | dict[str, float]),
    ] = Field(
        default_factory=lambda: {MONOLINGUAL: 1.0},
        description="the text. `monolingual` is the language's corpus, other names are entries of "
        "its `samples`, or other languages. Several texts are given with their shares of the "
        "tokens, such as `{monolingual: 0.85, tasks: 0.15}`. The first one determines the length "
        "of the phase",
    )
    validation: str = optional(
        "an entry of `samples` on which the loss is computed after each tenth of the phase; the "
        "phase ends with the parameters whose loss was the lowest. By default, with the last ones"
    )
    share: Share = Field(
        1.0, description="share of the strategy's epochs or tokens. All shares add up to 1"
    )
    tokens: int = optional(
        "instead of `share`: train on about this many tokens of the first text. Every phase then "
        "has its own amount",
        ge=1,
    )
    tokens_per_language: int = optional(
        "like `tokens`, multiplied by the number of members of a group", ge=1
    )
    epochs: float = optional("instead of `share`: passes over the first text", gt=0)
    batch_sequences: int = optional("replaces the strategy's value", ge=1)
    learning_rate: float = optional("replaces the strategy's value", gt=0)
    embedding_learning_rate: float = optional("replaces the strategy's value", ge=0.01, le=100)
    lora: Lora = optional("keys that replace those of the strategy")
    adapter: AdapterSettings | None = optional("for `trainable: [adapter]`: its adapters")

    @model_serializer(mode="plain")
    def given(self) -> dict[str, Any]:
        """The given settings; a single text by its name, and no share with another amount."""
        settings = super().given()
        if self.has_own_amount:
            del settings["share"]
        return settings | {"data": next(iter(self.data)) if len(self.data) == 1 else self.data}

    @property
    def has_own_amount(self) -> bool:
        """Whether the phase has its own amount of training, independent of the strategy's."""
        return any(getattr(self, key) is not None for key in AMOUNTS)

    @property
    def layers(self) -> tuple[int, ...]:
        """Indices of whole decoder layers, from the front or, negative, from the back."""
        chosen = (item.layers for item in self.trainable if isinstance(item, Layers))
        return tuple(index for layers in chosen for index in layers)

    def teacher(self, source: str | None = None) -> str | None:
        """The source model that teaches; the cell's own `source` if the settings name none."""
        teacher: str | None = objective(self.objective).teacher_name(self, source)
        return teacher

    @field_validator("data")
    @classmethod
    def _check_shares(cls, shares: dict[str, float]) -> dict[str, float]:
        total = sum(shares.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(f"the shares add up to {total:g}; they must add up to 1")
        return shares

    @field_validator("trainable")
    @classmethod
    def _check_parts(cls, items: tuple[str | Layers, ...]) -> tuple[str | Layers, ...]:
        parts = [item for item in items if isinstance(item, str)]
        alone = {"all": "already includes all parameters", "adapter": "leaves the model unchanged"}
        for part, reason in alone.items():
            if part in parts and len(items) > 1:
                raise ValueError(f"'{part}' {reason}; remove the other items")
        including_rows = {"embeddings", "head", "outside-layers"} & set(parts)
        if "new-rows" in parts and including_rows:
            raise ValueError(
                f"'{min(including_rows)}' already includes the new rows; remove 'new-rows'"
            )
        if "lora" in parts and len(parts) < len(items):
            raise ValueError(
                "'lora' adapts every linear layer, so whole layers need a phase of their own"
            )
        return items

    @model_validator(mode="after")
    def _check_keys(self) -> "Phase":
        amounts = [key for key in ("share", *AMOUNTS) if key in self.model_fields_set]
        if len(amounts) > 1:
            reason = f"'{amounts[0]}' already sets the length of the phase; remove one of the two"
            raise KeyedError(amounts[1], reason)
        if "adapter" not in self.trainable and "adapter" in self.model_fields_set:
            raise KeyedError("adapter", "this phase trains no adapter; remove 'adapter'")
        if self.embedding_learning_rate and not {*MATRIX_PARTS} & {*self.trainable}:
            reason = "this phase trains neither embeddings nor head; remove it"
            raise KeyedError("embedding_learning_rate", reason)
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _validate_as_objective_declares(cls, value: Any, handler: Any) -> "Phase":
        if cls is not Phase or not isinstance(value, Mapping):
            return handler(value)
        name = value.get("objective", "clm")
        if name not in objectives():
            known = ", ".join(f"'{known}'" for known in objectives())
            raise KeyedError("objective", f"{name!r} is not one of {known}")
        for other in objectives():
            for key in value.keys() & objective(other).keys() - objective(name).keys():
                reason = f"only objective {other} takes this key; remove '{key}'"
                raise KeyedError(key, reason)
        model: type[Phase] = objective(name).phase
        return handler(value) if model is Phase else checked(model, value)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        """The schema of all phases: with the keys of every objective."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        if cls is Phase:
            schema["properties"]["objective"]["enum"] = objectives()
            for keys, model in ((objective(n).keys(), objective(n).phase) for n in objectives()):
                if keys:
                    model.model_rebuild()
                    own = handler.resolve_ref_schema(handler(model.__pydantic_core_schema__))
                    schema["properties"] |= {key: own["properties"][key] for key in sorted(keys)}
        return schema


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


class Merging(Settings):
    """Merging the trained model with its source or another one, see `merging`."""

    method: Literal["slerp", "linear", "add"] = Field(
        description="`slerp` and `linear` interpolate decoder layers (ElChat); everything outside "
        "them but embeddings and head is then the other model's. `add` adds the difference between "
        "the other model and the source to all weights and to the rows of the source's tokens "
        "(chat vectors)"
    )
    of: str = optional(
        "the other model: a name of sources.yaml, with the tokenizer and the shapes of the cell's "
        "source. By default this source"
    )
    layers: Annotated[tuple[int, ...], Strict(False)] = optional(
        "the layers that are interpolated. Negative ones count from the last layer. By default all"
    )
    weights: Annotated[tuple[float, ...], Strict(False)] = Field(
        min_length=1,
        description="the other model's share of each of the `layers`, from 0 to 1; a single one is "
        "that of all. For `add`, the factor of the difference",
    )
    special_tokens: bool = Field(
        True, description="rows of special tokens, such as those of a chat, are the other model's"
    )

    @model_validator(mode="after")
    def _check_keys(self) -> "Merging":
        count = len(self.layers or ())
        if len(self.weights) not in (1, count):
            reason = f"has {len(self.weights)} numbers for {count} layers; give one for each"
            raise KeyedError("weights", reason)
        if self.method != "add" and not all(0 <= weight <= 1 for weight in self.weights):
            raise KeyedError("weights", "a share is from 0 to 1")
        if self.method == "add" and not self.of:
            raise KeyedError("of", "missing; name the chat model whose difference is added")
        if self.method == "add" and self.layers:
            raise KeyedError("layers", "a difference is added to all layers; remove this key")
        return self


class Strategy(Settings):
    """Phases, and their common settings. Defaults are those of Yamaguchi et al. (lowres), Table 6.

    A phase may override `batch_sequences`, the learning rates and `lora`; once validated, each
    phase has its own.
    """

    phases: Annotated[tuple[Phase, ...], Strict(False)] = Field(
        description="a list of phases, trained one after the other. `[]` trains nothing"
    )
    after: str | None = left_out(
        None,
        "name of another strategy, whose cell this one continues: with its parameters as they are "
        "stored, instead of those of the initializer. Several strategies can follow one training",
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
    learning_rate: float = Field(1e-4, gt=0, description="AdamW's peak rate, after warm-up")
    embedding_learning_rate: float = left_out(
        1.0,
        "ratio of the learning rate of embeddings, heads and `new-rows` to `learning_rate`; "
        "practitioners use 0.1 to 0.5",
        ge=0.01,
        le=100,
    )
    gradient_clipping: float = left_out(1.0, "norm to which gradients are clipped", gt=0)
    weight_decay: float = Field(
        0.01, ge=0, description="weight decay of AdamW, on all parameters except norms and biases"
    )
    epsilon: float = left_out(
        1e-8, "epsilon of AdamW, which is added to the root of its second moment", gt=0
    )
    schedule: Literal["cosine", "linear", "wsd", "constant"] = Field(
        "cosine",
        description="schedule of the learning rate in each phase. All but the last end at zero; "
        "`wsd` (warm-up, stable, decay) falls in the last tenth of the steps",
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
    packing: Literal["joined", "grouped", "apart", "single"] = Field(
        "joined",
        description="how texts fill sequences. `joined`: all texts are concatenated, and attend to "
        "those before them; `grouped`: likewise, but every 1,000 texts, whose incomplete last "
        "sequence is left out, as in transformers' `run_clm`; `apart`: no text attends to another, "
        "and its first token is not predicted, which some architectures do not support; `single`: "
        "one text per sequence, cut to its length",
    )
    merge: Merging = optional(
        "what the trained model is merged with before it is stored. The held-out curve, and "
        "checkpoints other than the last, are those of the model before"
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
        settings = super().given()
        if any(phase.has_own_amount for phase in self.phases):
            del settings["epochs"]
        return settings

    @property
    def samples(self) -> list[str]:
        """The entries of samples, and other languages, that the phases read."""
        names = (name for phase in self.phases for name in (*phase.data, phase.validation))
        return [name for name in dict.fromkeys(names) if name and name != MONOLINGUAL]

    @property
    def trains_whole_model(self) -> bool:
        """Whether a phase trains all parameters of a model at once.

        VocADT's dense adapters count too: they have about as many.
        """
        return any(
            "all" in phase.trainable
            or (
                "adapter" in phase.trainable
                and (phase.adapter or AdapterSettings()).form == "dense"
            )
            for phase in self.phases
        )

    @property
    def parts_of_new_vocabulary(self) -> list[str]:
        """What the phases train that exists only with a new vocabulary."""
        trained = {part for phase in self.phases for part in phase.trainable}
        return [part for part in ("adapter", "new-rows") if part in trained]

    def teacher(self, source: str | None = None) -> str | None:
        """The source model that teaches in a phase, see `Phase.teacher`."""
        return next(filter(None, (phase.teacher(source) for phase in self.phases)), None)

    @model_validator(mode="after")
    def _check_phases(self) -> "Strategy":
        self._check_amounts()
        if self.after and not self.phases and not self.merge:
            raise KeyedError("after", "a strategy without phases continues nothing; remove it")
        if self.merge and not self.phases and not self.after:
            raise KeyedError("merge", "nothing is trained; add phases, or `after`")
        for number, phase in enumerate(self.phases):
            if (number or self.after) and "adapter" in phase.trainable:
                key = f"phases[{number}].trainable"
                raise KeyedError(key, "only the first phase can train an adapter; put it first")
        teachers = (phase.teacher("the cell's own source") for phase in self.phases)
        names = sorted({name for name in teachers if name})
        if len(names) > 1:
            raise KeyedError(
                "phases", f"use the teachers {' and '.join(names)}; a cell can have only one"
            )
        return self

    def _check_amounts(self) -> None:
        """Check that the phases share the strategy's amount, or each has its own."""
        amounts = [key for key in AMOUNTS if key in self.model_fields_set]
        if {"tokens", "tokens_per_language"} <= {*amounts}:
            reason = "'tokens' already sets the amount of training; remove one of the two"
            raise KeyedError("tokens_per_language", reason)
        has_own = [phase.has_own_amount for phase in self.phases]
        if any(has_own):
            if not all(has_own):
                key, keys = f"phases[{has_own.index(False)}]", ", ".join(AMOUNTS)
                reason = f"needs one of {keys}, because another phase has one of its own"
                raise KeyedError(key, reason)
            if amounts:
                reason = "every phase has an amount of its own; remove this one"
                raise KeyedError(amounts[0], reason)
            return
        total = sum(phase.share for phase in self.phases)
        if self.phases and abs(total - 1) > 1e-6:
            raise KeyedError("phases", f"their shares add up to {total:g}; they must add up to 1")


def read_strategy(settings: Mapping[str, Any], where: str = "strategy") -> Strategy:
    """Read one entry of `config/strategies.yaml`, which error messages call `where`.

    Each phase of the result has what it inherits from the strategy. As plain data, it still has
    only what the user gave it. Raises a UserError if a key is unknown or missing, or a value is out
    of its range.
    """
    strategy = validate(Strategy, settings, where)
    phases = []
    for phase in strategy.phases:
        keys = ("batch_sequences", "learning_rate", "embedding_learning_rate", "lora")
        values = {key: getattr(phase, key) or getattr(strategy, key) for key in keys}
        if phase.lora is not None:
            given = phase.lora.model_fields_set
            inherited = {key: value for key, value in strategy.lora if key not in given}
            values["lora"] = _filled(phase.lora, **inherited)
        if "adapter" in phase.trainable and phase.adapter is None:
            values["adapter"] = AdapterSettings()
        phases.append(_filled(phase, **values))
    return _filled(strategy, phases=tuple(phases))


def _filled(settings: Settings, **values: Any) -> Any:
    """A copy with values that count as not given by the user."""
    return type(settings).model_construct(settings.model_fields_set, **dict(settings) | values)
