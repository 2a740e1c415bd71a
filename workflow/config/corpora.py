"""Texts of large corpora: what a language names by corpus and code, as a data set of the hub."""

from collections.abc import Mapping
from typing import Any

from lexigraft.errors import unknown

_TEXTS = ("text", "english")


def resolve_corpora(study: dict[str, Any]) -> None:
    """Put the data set in the place of each `{loader: corpus, corpus: …, code: …}` of a language.

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

    Its files are named by their addresses, since the library refuses data sets that have a loading
    script beside them. `place` is a folder with a copy of them.
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
