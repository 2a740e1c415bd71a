"""Initializers, and the vectors of tokens that they read."""

from functools import cache
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from lexigraft.auxiliary.registry import AuxiliaryKind, auxiliary_kinds
from lexigraft.corpus.mixture import AmountForCell, text_amount_field
from lexigraft.setting_types import Name
from lexigraft.settings import Settings, optional
from workflow.config.texts import Chosen, Unique


def auxiliary_model() -> Any:
    """The model of an entry of `auxiliary.yaml`: one of the kinds, with those of plug-ins."""
    return _one_of(*auxiliary_kinds())


@cache
def _one_of(*kinds: type[AuxiliaryKind]) -> Any:
    return Chosen[kinds]  # type: ignore[valid-type]  # the members are known at run time


def _by_role(auxiliary: Any) -> Any:
    return {"target": auxiliary} if isinstance(auxiliary, str) else auxiliary or {}


class InitializerConfig(Settings):
    """A method that initializes the embeddings of new tokens."""

    method: str = Field(
        description="a file of lexigraft/initialization/methods, such as `align` ([all of them]"
        "(../docs/methods.md#initializers))"
    )
    auxiliary: Annotated[
        dict[str, str],
        BeforeValidator(_by_role, json_schema_input_type=str | dict[str, str] | None),
    ] = Field(
        default_factory=dict,
        description="an entry of auxiliary.yaml that the method reads, or one for each role, such "
        "as `{target: glove, source: glove}`. A single entry has the role `target`. `source` is "
        "computed for the source's own tokens, every other role for the tokens of the cell's "
        "vocabulary",
    )
    dictionary: bool = Field(
        False,
        description="whether the method reads the language's `dictionary`. `cw2v` can read it; "
        "`dictionary-alignment` needs it, or pairs of `samples`",
    )
    samples: Name | None = Field(
        None,
        description="the language's `samples` of kind `parallel` whose pairs `transtokenizers` "
        "aligns, or `dictionary-alignment` uses as its dictionary; no pair is part of a test",
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="keyword arguments of the method"
    )
    languages: Annotated[list[str], Field(min_length=1), Unique] = optional(
        "codes of the languages that the method distinguishes, as a multilingual hypernetwork "
        "does: its option `language` is the code of the cell's language, unless `options` sets it"
    )
    text: AmountForCell = text_amount_field("the method reads")
    draws: bool = Field(
        False, description="whether the method draws at random. It is then fitted once per seed"
    )
