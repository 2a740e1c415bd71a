"""Locations of texts: of languages, of samples to train on, and of tasks' own examples.

A text names its `loader`, which determines its other keys.
"""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, StringConstraints, Tag, create_model

from lexigraft.corpus.local_files import check_data_set
from lexigraft.setting_types import LocalPath, Whole, Words
from lexigraft.settings import Settings, by_shape, chosen_by, optional

CODE = "[a-z]{2,3}"


def check_long_code(code: str) -> str:
    """The code; raises a ValueError if scores of its language use a shorter one."""
    from lexigraft.evaluation.unspaced_scripts import LONG_CODES

    if code in LONG_CODES:
        raise ValueError(f"'{code}' has a shorter code; use {LONG_CODES[code]}")
    return code


Code = Annotated[str, StringConstraints(pattern=f"^{CODE}$")]
Locale = Annotated[str, StringConstraints(pattern="^[A-Za-z_0-9]+$")]
Member = Annotated[str, StringConstraints(pattern=r"^\w[\w.-]*(/\w[\w.-]*)*$")]


def unique(values: list[Any]) -> list[Any]:
    """The list; raises a ValueError if a value occurs twice."""
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
# Codes of languages, or a mapping from each to the text's name for the language.
CalledCodes = Annotated[
    Annotated[Codes, Tag("@list")]
    | Annotated[dict[Code, str], Field(min_length=1), Tag("@mapping")],
    by_shape("needs ISO 639 codes: a list, or a mapping from each to what the text calls it"),
]


if TYPE_CHECKING:
    from typing import Union as Chosen
else:

    class Chosen:
        """One of several models, by its `loader` or `kind`: `Chosen[Tsv, PairFiles]`.

        The keys of models without such a key are added to each of the others.
        """

        def __class_getitem__(cls, models: tuple[type[Settings], ...]) -> Any:
            keys = [{"loader", "kind"} & model.model_fields.keys() for model in models]
            shared = tuple(model for model, found in zip(models, keys, strict=True) if not found)
            (key,) = keys[-1]
            names, tagged = [], []
            for model in models[len(shared) :]:
                (name,) = get_args(model.model_fields[key].annotation)
                names.append(name)
                tag = f"@{name}-configs" if "source_config" in model.model_fields else f"@{name}"
                own = create_model(model.__name__, __base__=(model, *shared)) if shared else model
                tagged.append(Annotated[own, Tag(tag)])
            *others, last = dict.fromkeys(names)
            message = f"needs a {key}: {', '.join(others)} or {last}, with its keys"
            twice = {"source_config": "datasets-configs"} if len({*names}) < len(names) else {}
            return Annotated[reduce(or_, tagged), chosen_by(key, message, **twice)]


class Catalogue(Settings):
    """Interface messages in a package, with their English originals."""

    loader: Literal["catalogue"]
    package: str = Field(description="a name of packages.yaml")
    locale: Locale = Field(description="folder of the language in the package")


class HtmlPage(Settings):
    """Paragraphs of a page in a package."""

    loader: Literal["html"]
    package: str = Field(description="a name of packages.yaml")
    page: Member = Field(description="a file of the package, such as package/page.html")


class JsonRows(Settings):
    """A JSON Lines file."""

    loader: Literal["jsonl"]
    path: LocalPath


class ParquetRows(Settings):
    """A table."""

    loader: Literal["parquet"]
    path: LocalPath


class HubRows(Settings):
    """A data set of the hub, or files that the library `datasets` reads."""

    loader: Literal["datasets"]
    name: Annotated[str, AfterValidator(check_data_set)] = Field(
        description="name of the data set on the hub"
    )
    split: str = Field(description="split, such as train")
    config: str | None = optional("configuration of the data set")
    revision: str | None = optional("a commit, tag or branch")
    data_files: DataFiles = optional("paths, patterns or URLs")


Rows = Chosen[JsonRows, ParquetRows, HubRows]


_COLUMN = "column or field of the text; by default `text`"
LINE_BREAK = "what stands for a line feed in the texts, such as a backslash and an n"


class Lines(Settings):
    """Files in the format of their ending: one text per line, JSON object or row of a table."""

    loader: Literal["text"]
    paths: list[LocalPath] = Field(
        min_length=1, description="files, which may be compressed, or folders"
    )
    field: str = optional("of `.jsonl` and `.parquet` files: " + _COLUMN)


class JsonLines(JsonRows):
    """A field of a JSON Lines file."""

    field: str = optional(_COLUMN)


class ParquetColumn(ParquetRows):
    """A column of a table."""

    column: str = optional(_COLUMN)


class HubColumn(HubRows):
    """A column of a data set."""

    column: str = optional(_COLUMN)
    line_break: Words = optional(LINE_BREAK)


class CorpusText(Settings):
    """The texts of a language in a large corpus on the hub."""

    loader: Literal["corpus"]
    corpus: str = Field(description="a name of corpora.yaml")
    code: Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_-]+$")] = Field(
        description="what the corpus calls the language"
    )


Text = Chosen[Catalogue, HtmlPage, Lines, JsonLines, ParquetColumn, HubColumn, CorpusText]
# Texts that are searched for in the training text.
SearchedText = Chosen[Lines, JsonLines, ParquetColumn, HubColumn]

# ---- pairs: English and the language, or articles and summaries ---------------------------------


class Tsv(Settings):
    """An English text, a tab and its translation on each line."""

    loader: Literal["tsv"]
    path: LocalPath


class PairFiles(Settings):
    """Two files with one text per line."""

    loader: Literal["files"]
    source: LocalPath
    target: LocalPath


class PairJson(JsonRows):
    """Two fields of a JSON Lines file."""

    source_field: str
    target_field: str


class _PairColumns(Settings):
    source_column: str
    target_column: str


class PairParquet(_PairColumns, ParquetRows):
    """Two columns of a table."""


class HubPairs(_PairColumns, HubRows):
    """Two columns of a data set."""


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


Pairs = Chosen[Catalogue, Tsv, PairFiles, PairJson, PairParquet, HubPairs, HubConfigs]
Articles = Chosen[PairFiles, PairJson, PairParquet, HubPairs]


class RatedTsv(Tsv):
    """The same with column numbers, counted from 1."""

    source_column: Whole = optional("column of English; by default 1")
    target_column: Whole = optional("column of the translation; by default 2")
    quality_column: Whole = optional("column of the quality of a pair")


class RatedFiles(PairFiles):
    """The same with a file of qualities."""

    quality: LocalPath = optional("a file with one number per line")


class RatedJson(PairJson):
    """The same with a field of qualities."""

    quality_field: str = optional("the field with the quality of a pair")


class _RatedColumn(Settings):
    quality_column: str = optional("the column with the quality of a pair")


class RatedParquet(_RatedColumn, PairParquet):
    """The same with a column of qualities."""


class RatedHubPairs(_RatedColumn, HubPairs):
    """The same with a column of qualities."""


RatedPairs = Chosen[
    Catalogue, RatedTsv, RatedFiles, RatedJson, RatedParquet, RatedHubPairs, HubConfigs
]
