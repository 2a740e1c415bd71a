"""The kind `sentence-encoder`: vectors of the texts of tokens (TokenAdapt)."""

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from lexigraft.auxiliary.registry import AuxiliaryCost, AuxiliaryKind, Computed, Options
from lexigraft.errors import UserError
from lexigraft.setting_types import HubName, LocalPath, Revision
from lexigraft.settings import Settings, optional


class Encoder(Settings):
    """A sentence encoder: on the hub, in a folder, or in a folder of a package."""

    hub: HubName = optional("a hub name, such as sentence-transformers/all-mpnet-base-v2")
    revision: Revision = optional("a commit, tag or branch on the hub")
    package: str = optional("a name of packages.yaml")
    folder: LocalPath = optional("a local folder, or a folder in the package")

    @model_validator(mode="after")
    def check_one_location(self) -> "Encoder":
        """Raise a ValueError unless exactly one location is given."""
        keys = self.model_fields_set & {"hub", "revision", "folder", "package"}
        if keys not in ({"hub"}, {"hub", "revision"}, {"folder"}, {"package", "folder"}):
            raise ValueError("needs {hub, revision}, {folder}, or {package, folder}")
        return self


class SentenceVectors(AuxiliaryKind, Encoder):
    """Vectors of the texts of tokens from a sentence encoder."""

    title: ClassVar = "sentence encoder"
    cost: ClassVar = AuxiliaryCost(megabytes=6000, minutes=60)

    kind: Literal["sentence-encoder"] = Field(
        description="vectors of each token's text from a sentence encoder"
    )

    @classmethod
    def reads(cls, settings: Options) -> tuple[str, ...]:
        """An encoder: `{"hub": name, "revision": …}` or `{"folder": path}`."""
        return ("encoder",)

    @classmethod
    def check(cls, settings: Options, where: str) -> None:
        """Check that a local folder has a model."""
        folder = None if "package" in settings else settings.get("folder")
        if folder and not Path(folder).expanduser().joinpath("config.json").is_file():
            raise UserError(
                f"{where}.folder: {folder} contains no config.json; specify a model's folder"
            )

    @classmethod
    def compute(cls, tokenizer: Any, settings: Options, inputs: Options, seed: int) -> Computed:
        """Encode the tokens; the texts of the optional input `known` are not encoded again."""
        from lexigraft.auxiliary.sentence_encoder import SentenceEncoder, encode_tokens

        encoder = SentenceEncoder(inputs["encoder"])
        vectors = encode_tokens(tokenizer, encoder, inputs.get("known"))
        return vectors, {"encoder": {"name": encoder.name, "revision": encoder.revision}}
