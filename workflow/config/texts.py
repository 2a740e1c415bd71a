"""Locations of texts: of languages, of samples to train on, and of tasks' own examples.

A text names its `loader`, which determines its other keys (`lexigraft.corpus.loader`).
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, Tag, create_model

from lexigraft.corpus.loader import loaders
from lexigraft.evaluation.unspaced_scripts import LONG_CODES
from lexigraft.settings import Settings, by_shape, one_of, required

CODE = "[a-z]{2,3}"


def check_long_code(code: str) -> str:
    """The code; raises a ValueError if scores of its language use a shorter one."""
    if code in LONG_CODES:
        raise ValueError(f"'{code}' has a shorter code; use {LONG_CODES[code]}")
    return code


def unique(values: list[Any]) -> list[Any]:
    """The list; raises a ValueError if a value occurs twice."""
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{value!r} is listed twice; list each once")
    return values


Code = Annotated[str, StringConstraints(pattern=f"^{CODE}$")]
Unique = AfterValidator(unique)
Repair = Annotated[list[Literal["zawgyi", "quotes", "mojibake"]], Unique]
Codes = Annotated[list[Code], Field(min_length=1)]
# Codes of languages, or a mapping from each to the text's name for the language.
CalledCodes = Annotated[
    Annotated[Codes, Tag("@list")]
    | Annotated[dict[Code, str], Field(min_length=1), Tag("@mapping")],
    by_shape("needs ISO 639 codes: a list, or a mapping from each to what the text calls it"),
]


class CorpusText(Settings):
    """The texts of a language in a large corpus on the hub."""

    loader: Literal["corpus"]
    corpus: str = required("a name of corpora.yaml")
    code: str = required("what the corpus calls the language", pattern="^[A-Za-z0-9_-]+$")


class RegisteredText(Settings):
    """A text of a loader from outside of the library, for the schemas."""

    model_config = ConfigDict(extra="allow")
    loader: str = Field(json_schema_extra={"not": {"enum": [*loaders()]}})


def text_of(
    use: str, *more: type[Settings], keys: type[Settings] | None = None, packages: bool = True
) -> Any:
    """Annotates the type of a text for a use: the keys of any loader that supports it.

    `more` are models of texts that no loader reads. `keys` has keys that all texts have in
    addition. Without `packages`, loaders of text in packages are left out.
    """

    def models() -> dict[str, list[type[Settings]]]:
        """The models of each loader, with those of plug-ins."""
        named = {
            name: [with_keys(model) for model in getattr(loader, use)]
            for name, loader in loaders().items()
            if getattr(loader, use) and (packages or not loader.needs_package)
        }
        return named | {get_args(m.model_fields["loader"].annotation)[0]: [m] for m in more}

    @cache
    def with_keys(model: type[Settings]) -> type[Settings]:
        return create_model(model.__name__, __base__=(model, keys)) if keys else model

    def choose(value: Mapping[str, Any]) -> type[Settings]:
        named = models()
        if value.get("loader") not in named:
            *others, last = named
            raise ValueError(f"needs a loader: {', '.join(others)} or {last}, with its keys")
        fitting = named[value["loader"]]
        return next((m for m in fitting if value.keys() <= m.model_fields.keys()), fitting[0])

    listed = [model for of_loader in models().values() for model in of_loader]
    return one_of([*dict.fromkeys(listed), with_keys(RegisteredText)], choose)


Text = Annotated[Settings, text_of("text", CorpusText)]
Pairs = Annotated[Settings, text_of("pairs")]
RatedPairs = Annotated[Settings, text_of("rated_pairs")]
Articles = Annotated[Settings, text_of("articles")]
Rows = Annotated[Settings, text_of("rows")]
