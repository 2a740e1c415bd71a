"""The kind `plm`: input embeddings of a pretrained language model (SALT, CLP, OMP)."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from lexigraft.auxiliary.registry import AuxiliaryCost, AuxiliaryKind, Computed, Options
from lexigraft.setting_types import Words


class ModelEmbeddings(AuxiliaryKind):
    """Input embeddings of a model whose tokenizer is the target's."""

    title: ClassVar = "embeddings of a model"
    cost: ClassVar = AuxiliaryCost(megabytes=4000, minutes=60)  # only the input matrix is read

    kind: Literal["plm"] = Field(
        description="input embeddings of a model whose tokenizer is the target's"
    )
    plm: Words = Field(description="a name in languages.<language>.plms")

    @classmethod
    def reads(cls, settings: Options) -> tuple[str, ...]:
        """A model: its name on the hub, or its folder."""
        return ("model",)

    @classmethod
    def compute(cls, tokenizer: Any, settings: Options, inputs: Options, seed: int) -> Computed:
        """Read the embeddings; the fact `commit` is that of a model on the hub.

        The settings of a job have the `model` and the `revision` of the language instead of `plm`.
        """
        from lexigraft.auxiliary.token_vectors import read_plm
        from lexigraft.source.hub import resolve_place

        model = inputs.get("model") or settings["model"]
        folder, commit = resolve_place(str(model), settings.get("revision"))
        return read_plm(tokenizer, folder), {"commit": commit}
