"""Where texts come from: of languages, of samples to train on, and of tasks' own examples.

A text names its `loader`, and the loader says which other keys it has.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, Tag

from lexigraft.cells import NAME
from lexigraft.settings import Settings, by_shape, chosen_by, optional

Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
Code = Annotated[str, StringConstraints(pattern="^[a-z]{2,3}$")]
Words = Annotated[str, StringConstraints(min_length=1)]
Locale = Annotated[str, StringConstraints(pattern="^[A-Za-z_0-9]+$")]


def unique(values: list[Any]) -> list[Any]:
    """The list, which has each value once."""
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{value!r} is listed twice; list each once")
    return values


Unique = AfterValidator(unique)
DataFiles = Annotated[
    Annotated[str, Tag("@text")] | Annotated[list[str], Field(min_length=1), Tag("@list")],
    by_shape("needs paths, patterns or addresses: one, or a list of them"),
]
Repair = Annotated[list[Literal["zawgyi", "quotes", "mojibake"]], Unique]
Codes = Annotated[list[Code], Field(min_length=1)]
# Codes of languages, or a mapping from each to what the text calls the language.
CalledCodes = Annotated[
    Annotated[Codes, Tag("@list")]
    | Annotated[dict[Code, str], Field(min_length=1), Tag("@mapping")],
    by_shape("needs ISO 639 codes: a list, or a mapping from each to what the text calls it"),
]


class Catalogue(Settings):
    """Messages of an interface in a package, with their English."""

    loader: Literal["catalogue"]
    package: str = Field(description="a name of packages.yaml")
    locale: Locale = Field(description="the folder of the language in the package")


class _OnHub(Settings):
    """A data set of the hub, or of files that its library reads."""

    loader: Literal["datasets"]
    name: str = Field(description="of the data set on the hub")
    split: str = Field(description="such as train")
    config: str | None = optional("of the data set")
    revision: str | None = optional("a commit, tag or branch")
    data_files: DataFiles = optional("paths, patterns or addresses")


# ---- one language ------------------------------------------------------------------------------


class Lines(Settings):
    """Plain text, a sentence a line."""

    loader: Literal["text"]
    paths: list[str] = Field(min_length=1, description="files, which may be compressed")


class JsonLines(Settings):
    """A field of lines of JSON."""

    loader: Literal["jsonl"]
    path: str
    field: str


class ParquetColumn(Settings):
    """A column of a table."""

    loader: Literal["parquet"]
    path: str
    column: str


class HubColumn(_OnHub):
    """A column of a data set."""

    column: str


_TEXT = "needs a loader: catalogue, text, jsonl, parquet or datasets, with its keys"
Text = Annotated[
    Annotated[Catalogue, Tag("@catalogue")]
    | Annotated[Lines, Tag("@text")]
    | Annotated[JsonLines, Tag("@jsonl")]
    | Annotated[ParquetColumn, Tag("@parquet")]
    | Annotated[HubColumn, Tag("@datasets")],
    chosen_by("loader", _TEXT),
]
# Texts that the training text is searched for.
SearchedText = Annotated[
    Annotated[Lines, Tag("@text")]
    | Annotated[JsonLines, Tag("@jsonl")]
    | Annotated[ParquetColumn, Tag("@parquet")]
    | Annotated[HubColumn, Tag("@datasets")],
    chosen_by("loader", "needs a loader: text, jsonl, parquet or datasets, with its keys"),
]

# ---- pairs: English and the language, or articles and summaries ---------------------------------


class Tsv(Settings):
    """English, a tab and the language on each line."""

    loader: Literal["tsv"]
    path: str


class PairFiles(Settings):
    """Two files with a text a line."""

    loader: Literal["files"]
    source: str
    target: str


class PairJson(Settings):
    """Two fields of lines of JSON."""

    loader: Literal["jsonl"]
    path: str
    source_field: str
    target_field: str


class PairParquet(Settings):
    """Two columns of a table."""

    loader: Literal["parquet"]
    path: str
    source_column: str
    target_column: str


class HubPairs(_OnHub):
    """Two columns of a data set."""

    source_column: str
    target_column: str


class HubConfigs(Settings):
    """One column of two configurations of a data set, matched by an identifier."""

    loader: Literal["datasets"]
    name: str
    split: str
    source_config: str
    target_config: str
    column: str
    id_column: str
    revision: str | None = optional("a commit, tag or branch")


_PAIRS = "needs a loader: catalogue, tsv, files, jsonl, parquet or datasets, with its keys"
Pairs = Annotated[
    Annotated[Catalogue, Tag("@catalogue")]
    | Annotated[Tsv, Tag("@tsv")]
    | Annotated[PairFiles, Tag("@files")]
    | Annotated[PairJson, Tag("@jsonl")]
    | Annotated[PairParquet, Tag("@parquet")]
    | Annotated[HubPairs, Tag("@datasets")]
    | Annotated[HubConfigs, Tag("@datasets-configs")],
    chosen_by("loader", _PAIRS, source_config="datasets-configs"),
]
Articles = Annotated[
    Annotated[PairFiles, Tag("@files")]
    | Annotated[PairJson, Tag("@jsonl")]
    | Annotated[PairParquet, Tag("@parquet")]
    | Annotated[HubPairs, Tag("@datasets")],
    chosen_by("loader", "needs a loader: files, jsonl, parquet or datasets, with its keys"),
]

# ---- samples to train on ------------------------------------------------------------------------

Column = Annotated[int, Field(ge=1)]


class RatedTsv(Tsv):
    """The same with the places of its columns, the first of which is 1."""

    source_column: Column = optional("where English is; 1 where it is not given")
    target_column: Column = optional("where the translation is; 2 where it is not given")
    quality_column: Column = optional("where the quality of a pair is")


class RatedFiles(PairFiles):
    """The same with a file of qualities."""

    quality: str = optional("a file with a number a line")


class RatedJson(PairJson):
    """The same with a field of qualities."""

    quality_field: str = optional("the field with the quality of a pair")


class RatedParquet(PairParquet):
    """The same with a column of qualities."""

    quality_column: str = optional("the column with the quality of a pair")


class RatedHubPairs(HubPairs):
    """The same with a column of qualities."""

    quality_column: str = optional("the column with the quality of a pair")


RatedPairs = Annotated[
    Annotated[Catalogue, Tag("@catalogue")]
    | Annotated[RatedTsv, Tag("@tsv")]
    | Annotated[RatedFiles, Tag("@files")]
    | Annotated[RatedJson, Tag("@jsonl")]
    | Annotated[RatedParquet, Tag("@parquet")]
    | Annotated[RatedHubPairs, Tag("@datasets")]
    | Annotated[HubConfigs, Tag("@datasets-configs")],
    chosen_by("loader", _PAIRS, source_config="datasets-configs"),
]


class JsonRows(Settings):
    """Lines of JSON."""

    loader: Literal["jsonl"]
    path: str


class ParquetRows(Settings):
    """A table."""

    loader: Literal["parquet"]
    path: str


class HubRows(_OnHub):
    """A data set."""


Rows = Annotated[
    Annotated[JsonRows, Tag("@jsonl")]
    | Annotated[ParquetRows, Tag("@parquet")]
    | Annotated[HubRows, Tag("@datasets")],
    chosen_by("loader", "needs a loader: jsonl, parquet or datasets, with its keys"),
]
