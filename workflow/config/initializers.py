"""Initializers, and the vectors of tokens that they read."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from lexigraft.auxiliary.registry import AuxiliaryKind, auxiliary_kinds
from lexigraft.corpus.mixture import AmountForCell, text_amount_field
from lexigraft.setting_types import Name
from lexigraft.settings import Settings, default, one_of_kinds, optional, required
from workflow.config.texts import Unique

Auxiliary = Annotated[AuxiliaryKind, one_of_kinds(auxiliary_kinds)]


def _by_role(auxiliary: Any) -> Any:
    return {"target": auxiliary} if isinstance(auxiliary, str) else auxiliary or {}


class InitializerConfig(Settings):
    """A method that initializes the embeddings of new tokens."""

    method: str = required("name of the method ([all](../docs/methods.md#initializers))")
    auxiliary: Annotated[
        dict[str, str],
        BeforeValidator(_by_role, json_schema_input_type=str | dict[str, str] | None),
    ] = default(
        dict,
        "an entry of auxiliary.yaml that the method reads, which has the role `target`; or one for "
        "each role: `{target: glove, source: glove}`. `source` is computed for the source's own "
        "tokens, all others for those of the cell's vocabulary",
    )
    dictionary: bool = default(
        False,
        "whether `cw2v` or `dictionary-alignment` read the language's `dictionary`",
    )
    samples: Name | None = default(
        None,
        "the language's `samples` of kind `parallel` from which `transtokenizers` or "
        "`dictionary-alignment` aligns words; no pair is part of a test",
    )
    options: dict[str, Any] = default(dict, "keyword arguments of the method")
    languages: Annotated[list[str], Field(min_length=1), Unique] = optional(
        "codes of the languages that the method distinguishes: its option `language` is that of "
        "the cell, unless `options` sets it"
    )
    text: AmountForCell = text_amount_field("the method reads")
    draws: bool = default(False, "whether it draws at random and is fitted once per seed")
