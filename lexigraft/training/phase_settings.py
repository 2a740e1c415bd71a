"""A phase of a strategy, as plain data: what it trains, with which objective, on which text."""

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

from lexigraft.settings import KeyedError, Settings, by_shape, optional
from lexigraft.training.registry import objective, objectives

Part = Literal["embeddings", "head", "new-rows", "lora", "outside-layers", "all", "adapter"]
PARTS = get_args(Part)
AMOUNTS = ("tokens", "tokens_per_language", "epochs")  # of training: a strategy's, or a phase's own
_WITH_ROWS = {"embeddings", "head", "new-rows", "outside-layers", "all"}
MONOLINGUAL = "monolingual"  # the corpus; every other name in `data` is an entry of samples
Share = Annotated[float, Field(gt=0, le=1)]


def left_out(default: Any, description: str, **bounds: Any) -> Any:
    """A field that plain data includes only if the user gives it."""
    return Field(default, description=description, json_schema_extra={"left_out": True}, **bounds)


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
        "LoRA+ (Hayou et al. 2024): factor by which the learning rate of the adapters' second "
        "matrices is higher",
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


class DistillSettings(Settings):
    """The teacher, a source model, and its weight in the loss."""

    teacher: str = Field(description="a name of sources.yaml. It must have the cell's vocabulary")
    temperature: float = Field(
        1.0, gt=0, description="temperature of the distributions of both models"
    )
    weight: float = Field(
        0.5,
        gt=0,
        le=1,
        description="weight of the teacher in the loss: (1 - weight) x nats + weight x "
        "temperature² x KL(teacher || model)",
    )


class AlmSettings(Settings):
    """Approximate likelihood matching (Minixhofer et al. 2025): the teacher, and the loss."""

    teacher: str = optional(
        "a name of sources.yaml, with any vocabulary. By default the cell's own source"
    )
    temperature: float = Field(
        100.0, gt=0, description="divisor of the log-probabilities of chunks"
    )
    weight: float = Field(1.0, gt=0, description="weight of the matching loss")
    next_weight: float = Field(
        0.0, ge=0, description="weight of the next-token loss that is added to it"
    )
    debias: float = optional(
        "outcome chunk debiasing: a chunk's likelihood includes the probability that a word ends "
        "after it, and a chunk is joined with the next one unless this probability exceeds the "
        "given threshold under the teacher. The published code uses 0.1. By default, no debiasing",
        ge=0,
        lt=1,
    )
    teacher_length: int = optional(
        "maximum number of tokens of a sequence that the teacher reads; the rest has no part in "
        "the matching loss. By default four times the phase's `length`, or the teacher's maximum "
        "if that is less",
        ge=8,
    )


class AimSettings(Settings):
    """Attention influence modeling (MATT; Haltiuk et al. 2025), taught by the cell's source."""

    layers: int = optional(
        "number of decoder layers that are computed; the attention of the last one is compared. "
        "By default a third of the model's layers",
        ge=1,
    )
    weight: float = Field(1.0, gt=0, description="weight of the squared difference of influences")
    next_weight: float = Field(
        0.0,
        ge=0,
        description="weight of the next-token loss that is added to it, for which all layers are "
        "computed. Untied heads need it",
    )
    teacher_length: int = optional(
        "maximum number of tokens of a sequence that the source model reads; the rest has no part "
        "in the difference. By default four times the phase's `length`, or the source's maximum "
        "if that is less",
        ge=8,
    )


class ConvergedSettings(Settings):
    """When a phase has converged: its training loss, in windows of steps, no longer falls."""

    window: int = Field(50, ge=1, description="optimizer steps over which the loss is averaged")
    improvement: float = Field(
        0.01,
        gt=0,
        lt=1,
        description="share by which the mean of a window must be lower than that of the previous "
        "window",
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
        "every linear layer except the head and routers, and fused experts; `outside-layers` is "
        "everything outside the decoder layers; `adapter` trains VocADT's recipes and leaves the "
        "model unchanged; `new-rows` are the rows of new tokens in embeddings and head. Tied "
        "embeddings and head are trained once",
    )
    length: int = Field(ge=8, description="tokens per training sequence")
    objective: Literal["aim", "alm", "clm", "distill", "mlm", "mtp"] = Field(
        "clm",
        description="what is predicted. `clm`: the next token; `mtp`: also the token after it, "
        "with an extra head; `mlm`: masked tokens, for sources of `kind: masked`; `distill`: the "
        "next token, and the predictions of a teacher; `alm`: the likelihood that a teacher of "
        "any vocabulary assigns to pieces of text; `aim`: the influence that pieces of text have "
        "on each other in one attention layer of the source model",
    )
    data: Annotated[
        dict[str, Share],
        BeforeValidator(_as_shares, json_schema_input_type=str | dict[str, float]),
    ] = Field(
        default_factory=lambda: {MONOLINGUAL: 1.0},
        description="the text. `monolingual` is the language's corpus, other names are entries of "
        "its `samples`. Several texts are given with their shares of the tokens, such as "
        "`{monolingual: 0.85, tasks: 0.15}`. The first one determines the length of the phase",
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
    converged: ConvergedSettings | None = optional(
        "ends the phase as soon as its loss no longer falls. The remaining steps go to the next "
        "phase, which needs the same `length`, `batch_sequences` and `data` (one text)"
    )
    batch_sequences: int = optional("replaces the strategy's value", ge=1)
    learning_rate: float = optional("replaces the strategy's value", gt=0)
    lora: Lora = optional("keys that replace those of the strategy")
    adapter: AdapterSettings | None = optional("for `trainable: [adapter]`: its adapters")
    distill: DistillSettings | None = optional("for objective `distill`: the teacher")
    alm: AlmSettings | None = optional("for objective `alm`: the teacher and the loss")
    aim: AimSettings | None = optional("for objective `aim`: the layers and the loss")
    anchor: float = left_out(
        0.0,
        "weight of a loss term that keeps the trained rows of new tokens close to the values that "
        "their recipe gave them: the mean squared distance from these",
        ge=0,
    )
    masking: float = left_out(
        0.15,
        "for objective `mlm`: share of the tokens that are masked, drawn anew at each visit",
        gt=0,
        lt=1,
    )
    extra_head: Literal["copied", "random"] = left_out(
        "copied",
        "for objective `mtp`: how the extra head is initialized. Later phases continue with it",
    )
    extra_logits: Literal["as-head", "raw"] = left_out(
        "as-head",
        "for objective `mtp`: `as-head` treats the extra logits like the model's own, which Gemma "
        "2 caps",
    )

    @model_serializer(mode="plain")
    def given(self) -> dict[str, Any]:
        """The given settings; a single text by its name, and no share with another amount."""
        own = super().given()
        if self.has_own_amount:
            del own["share"]
        return own | {"data": next(iter(self.data)) if len(self.data) == 1 else self.data}

    @property
    def has_own_amount(self) -> bool:
        """Whether the phase has its own amount of training, independent of the strategy's."""
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
        alone = {"all": "already includes all parameters", "adapter": "leaves the model unchanged"}
        for part, reason in alone.items():
            if part in parts and len(items) > 1:
                raise ValueError(f"'{part}' {reason}; remove the other items")
        whole = {"embeddings", "head", "outside-layers"} & set(parts)
        if "new-rows" in parts and whole:
            raise ValueError(f"'{min(whole)}' already includes the new rows; remove 'new-rows'")
        if "lora" in parts and len(parts) < len(items):
            raise ValueError(
                "'lora' adapts every linear layer, so whole layers need a phase of their own"
            )
        return items

    @model_validator(mode="after")
    def _has_one_amount(self) -> "Phase":
        given = [key for key in ("share", *AMOUNTS) if key in self.model_fields_set]
        if len(given) > 1:
            raise KeyedError(
                given[1],
                f"'{given[0]}' already sets the length of the phase; remove one of the two",
            )
        return self

    @model_validator(mode="after")
    def _has_what_its_objective_needs(self) -> "Phase":
        given, own = self.model_fields_set, objective(self.objective)
        for name in objectives():
            for key in objective(name).options:
                if key in given and key not in own.options:
                    reason = f"only objective {name} takes this key; remove '{key}'"
                    raise KeyedError(key, reason)
        for part, what in {"new-rows": "new rows have", "adapter": "an adapter has"}.items():
            if self.objective == "mtp" and part in self.trainable:
                reason = f"{what} no head of their own to copy; remove 'mtp'"
                raise KeyedError("objective", reason)
        if self.objective == "distill" and self.distill is None:
            raise KeyedError("distill.teacher", "missing; specify an entry of sources.yaml")
        if "adapter" not in self.trainable and "adapter" in given:
            raise KeyedError("adapter", "this phase trains no adapter; remove 'adapter'")
        if self.anchor and not _WITH_ROWS.intersection(
            item for item in self.trainable if isinstance(item, str)
        ):
            raise KeyedError("anchor", "this phase trains no rows; remove 'anchor'")
        return self
