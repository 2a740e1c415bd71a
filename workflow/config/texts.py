"""Locations of texts: of languages, of samples to train on, and of tasks' own examples.

A text names its `loader`, which determines its other keys (`lexigraft.corpus.loader`).
"""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationError,
    create_model,
    model_validator,
)

from lexigraft.corpus.loader import find_loader, loaders, registered_loaders
from lexigraft.evaluation.unspaced_scripts import LONG_CODES
from lexigraft.settings import Settings, by_shape, chosen_by, outermost_error

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


if TYPE_CHECKING:
    from typing import Union as Chosen
else:

    class Chosen:
        """One of several models, by its `loader` or `kind`: `Chosen[FastText, Glove]`.

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


class CorpusText(Settings):
    """The texts of a language in a large corpus on the hub."""

    loader: Literal["corpus"]
    corpus: str = Field(description="a name of corpora.yaml")
    code: Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_-]+$")] = Field(
        description="what the corpus calls the language"
    )


def text_of(
    use: str, *more: type[Settings], keys: type[Settings] | None = None, packages: bool = True
) -> Any:
    """The type of a text for a use: the keys of any loader that supports it.

    `more` are models of texts that no loader reads. `keys` has keys that all texts have in
    addition. Without `packages`, loaders of text in packages are left out.

    The models of the library's loaders are part of the schemas; a loader that is registered later
    is looked up when a study is validated.
    """
    found = [loader for loader in loaders().values() if packages or not loader.needs_package]
    models = [*dict.fromkeys(model for loader in found for model in getattr(loader, use)), *more]
    union = Chosen[(*([keys] if keys else []), *models)]  # type: ignore[valid-type,misc]
    members, by_loader = get_args(union)
    known = sorted({get_args(model.model_fields["loader"].annotation)[0] for model in models})

    class RegisteredText(keys or Settings):  # type: ignore[misc,valid-type]
        """A text of a loader from outside of the library."""

        model_config = ConfigDict(extra="allow")
        loader: str = Field(json_schema_extra={"not": {"enum": known}})

        @model_validator(mode="after")
        def check_keys(self) -> Any:
            models, problem = getattr(find_loader(self.loader), use), None
            for model in models:
                try:
                    model.model_validate({"loader": self.loader, **(self.model_extra or {})})
                    return self
                except ValidationError as error:
                    problem = problem or outermost_error(error, model)
            if problem is None:
                raise ValueError(f"the loader '{self.loader}' does not read such texts")
            raise ValueError(": ".join(problem).removeprefix("."))

    def tag(value: Any) -> str | None:
        given = value if isinstance(value, Mapping) else vars(value) if value else {}
        if isinstance(value, Mapping | BaseModel) and given.get("loader") in registered_loaders():
            return "@registered"
        return by_loader.discriminator(value)

    registered = Annotated[RegisteredText, Tag("@registered")]
    message = by_loader.custom_error_message
    chosen = Discriminator(tag, custom_error_type="none_of_them", custom_error_message=message)
    return Annotated[members | registered, chosen]


if TYPE_CHECKING:
    # The type checker sees only their base class: the models are known when they are registered.
    Text = Settings
    Pairs = Settings
    RatedPairs = Settings
    Articles = Settings
    Rows = Settings
else:
    Text = text_of("text", CorpusText)
    Pairs = text_of("pairs")
    RatedPairs = text_of("rated_pairs")
    Articles = text_of("articles")
    Rows = text_of("rows")
