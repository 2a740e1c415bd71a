"""The kind `plm`: input embeddings of a pretrained language model (SALT, CLP, OMP)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from lexigraft.auxiliary.registry import AuxiliaryCost, AuxiliaryKind
from lexigraft.setting_types import Words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from lexigraft.auxiliary.token_vectors import TokenVectors


class ModelEmbeddings(AuxiliaryKind):
    """Input embeddings of a model whose tokenizer is the target's."""

    title: ClassVar = "embeddings of a model"
    cost: ClassVar = AuxiliaryCost(megabytes=4000, minutes=60)  # only the input matrix is read

    kind: Literal["plm"] = Field(
        description="input embeddings of a model whose tokenizer is the target's"
    )
    plm: Words = Field(description="a name in languages.<language>.plms")

    @classmethod
    def reads(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """A model: its name on the hub, or its folder."""
        return ("model",)

    @classmethod
    def compute(
        cls,
        tokenizer: "PreTrainedTokenizerFast",
        settings: Mapping[str, Any],
        inputs: Mapping[str, Any],
        seed: int,
    ) -> "tuple[TokenVectors, dict[str, Any]]":
        """Read the embeddings; the fact `commit` is that of a model on the hub.

        The settings of a job have the `model` and the `revision` of the language instead of `plm`.
        """
        from lexigraft.auxiliary.token_vectors import read_plm
        from lexigraft.source.hub import resolve_place

        model = inputs.get("model") or settings["model"]
        folder, commit = resolve_place(str(model), settings.get("revision"))
        return read_plm(tokenizer, folder), {"commit": commit}
