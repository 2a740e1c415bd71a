"""Texts in large corpora: translates a corpus and a language code into a data set on the hub."""

from collections.abc import Mapping
from typing import Any

from lexigraft.errors import unknown

_TEXTS = ("text", "english")


def resolve_corpora(study: dict[str, Any]) -> None:
    """Replace each `{loader: corpus, corpus: …, code: …}` of a language by its data set.

    Raises a UserError if there is no such corpus.
    """
    corpora = study["corpora"]
    for name, language in study["languages"].items():
        for key in _TEXTS:
            text = language.get(key)
            if text and text["loader"] == "corpus":
                if text["corpus"] not in corpora:
                    raise unknown(f"languages.{name}.{key}.corpus", text["corpus"], corpora)
                language[key] = data_set(corpora[text["corpus"]], text["code"])


def data_set(corpus: Mapping[str, Any], code: str, place: str | None = None) -> dict[str, Any]:
    """The settings of the loader `datasets` for one language of a corpus.

    Its files are given by URL, since the library rejects data sets that also have a loading script.
    `place` is a folder with a copy of the files.
    """
    files = corpus["data_files"].replace("{code}", code)
    revision = f"@{corpus['revision']}" if "revision" in corpus else ""
    hub = f"hf://datasets/{corpus['name']}{revision}"
    return {
        "loader": "datasets",
        "name": "parquet" if files.endswith(".parquet") else "json",
        "split": "train",
        "data_files": [f"{place or hub}/{files}"],
        "column": corpus["column"],
        **({"line_break": corpus["line_break"]} if "line_break" in corpus else {}),
    }
