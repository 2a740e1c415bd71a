"""The base class of all settings, and validation errors as one line for the user.

A model's fields define a key of the config completely: its type, bounds, default and meaning. The
tables of `config/README.md` and error messages are generated from them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    TypeAdapter,
    ValidationError,
    model_serializer,
)

from lexigraft.errors import UserError, suggestion

Model = TypeVar("Model", bound=BaseModel)
_adapter = cache(TypeAdapter[Any])
_LEFT_OUT: dict[str, Any] = {"left_out": True}

_REASONS = {  # pydantic's error type -> the message for the user
    **dict.fromkeys(("bool_type", "bool_parsing"), "{shown} is not true or false"),
    **dict.fromkeys(("dict_type", "model_type"), "{shown} is not a mapping of keys to values"),
    **dict.fromkeys(("float_type", "float_parsing"), "{shown} is not a number"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "{shown} is not a whole number"),
    **dict.fromkeys(("list_type", "tuple_type"), "{shown} is not a list"),
    "string_type": "{shown} is not text",
    "greater_than": "{value} is not above {gt:g}",
    "greater_than_equal": "{value} is not at least {ge:g}",
    "less_than": "{value} is not below {lt:g}",
    "less_than_equal": "{value} is not at most {le:g}",
    "literal_error": "{shown} is not one of {expected}",
    "string_pattern_mismatch": "{shown} does not match {pattern!r}",
    **dict.fromkeys(
        ("too_short", "string_too_short"), "{shown} is too short; give at least {min_length}"
    ),
    "too_long": "{shown} is too long; give at most {max_length}",
}


class Settings(BaseModel):
    """A mapping in a config. It accepts no keys but its fields, and does not convert types."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        defer_build=True,
        protected_namespaces=(),
    )

    @model_serializer(mode="plain")
    def given(self) -> dict[str, Any]:
        """The fields and their values, without optional fields that the user did not set."""
        fields, given = type(self).model_fields, self.model_fields_set
        values = {
            name: getattr(self, name)
            for name, field in fields.items()
            if name in given or field.json_schema_extra != _LEFT_OUT
        }
        return values | (self.model_extra or {})


class KeyedError(ValueError):
    """An error in one key of a mapping, raised while the whole mapping is validated."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def required(description: str, **bounds: Any) -> Any:
    """A field that the user has to set."""
    return Field(description=description, **bounds)


def default(value: Any, description: str, **bounds: Any) -> Any:
    """A field with a default, which a class or a function returns."""
    given = {"default_factory" if callable(value) else "default": value}
    return Field(**given, description=description, **bounds)


def optional(description: str, **bounds: Any) -> Any:
    """A field without a default: if the user does not set it, plain data does not have the key."""
    return Field(None, description=description, json_schema_extra=_LEFT_OUT, **bounds)


def one_of(
    models: Sequence[type[Settings]], choose: Callable[[Mapping[str, Any]], type[Settings]]
) -> Any:
    """Annotates the type of a mapping that is validated as the model that `choose` returns for it.

    `choose` raises a ValueError if no model fits. The schema for editors has all `models`.
    """

    def check(value: Any) -> Settings:
        if isinstance(value, Settings):
            return value
        return checked(choose(value if isinstance(value, Mapping) else {}), value)

    return PlainValidator(check, json_schema_input_type=reduce(or_, models))


def one_of_kinds(models: Callable[[], Sequence[type[Settings]]]) -> Any:
    """Annotates the type of a mapping whose `kind` names its model; `models` may change later."""

    def choose(value: Mapping[str, Any]) -> type[Settings]:
        named = {get_args(model.model_fields["kind"].annotation)[0]: model for model in models()}
        if value.get("kind") not in named:
            *others, last = named
            raise ValueError(f"needs a kind: {', '.join(others)} or {last}, with its keys")
        return named[value["kind"]]

    return one_of(models(), choose)


def checked(model: type[Model], value: Any) -> Model:
    """Validate a part of settings, within their validation; raises an error for the whole."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        path, reason = outermost_error(error, model)
    if path:
        raise KeyedError(path.removeprefix("."), reason)
    raise ValueError(reason)


def by_shape(message: str) -> Discriminator:
    """Select `@text`, `@list` or `@mapping` by the type of a value."""
    shapes = ((str, "@text"), (list | tuple, "@list"), (Mapping | BaseModel, "@mapping"))
    return Discriminator(
        lambda value: next((tag for kind, tag in shapes if isinstance(value, kind)), None),
        custom_error_type="none_of_them",
        custom_error_message=message,
    )


def validate(kind: type[Model], value: Any, where: str) -> Model:
    """Validate a value, called `where` in messages, as a model or a member of a union of models.

    The UserError names the key that is wrong, what is wrong with it, and what would be right.
    """
    try:
        model: Model = _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise UserError(explain(error, kind, where)) from None
    return model


def plain(value: Any) -> Any:
    """Convert a model and its content to JSON types, like `model_dump(mode="json")`.

    `model_dump` would first build a serializer for each model: a fifth of Snakemake's startup time.
    """
    if isinstance(value, Settings):
        value = value.given()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def explain(error: ValidationError, kind: Any, where: str) -> str:
    """One line about the outermost error, which is the one that the user can act on."""
    path, reason = outermost_error(error, kind)
    return f"{where}{path}: {reason}"


def outermost_error(error: ValidationError, kind: Any) -> tuple[str, str]:
    """The path of the outermost error, such as `.phases[0].length`, and the reason."""
    # pydantic does not count invalid items, so a list with such items is also called too short.
    explanations = [
        _explain(entry, kind)
        for entry in error.errors(include_url=False)
        if entry["type"] != "too_short" or len(entry["input"]) < entry["ctx"]["min_length"]
    ]
    _, path, reason = min(explanations, key=lambda explanation: explanation[:2])
    return path, reason


def _explain(error: Any, kind: Any) -> tuple[int, str, str]:
    """Depth, path and reason of one error."""
    location, name = list(error["loc"]), error["type"]
    last = location.pop() if name in ("missing", "extra_forbidden") else None
    model, hint = _described(kind, location)
    if name == "missing":
        _, hint = _described(kind, [*location, last])
        reason = f"'{last}' is missing{_in_brackets(hint)}"
    elif name == "extra_forbidden":
        fields = model.model_fields if is_model(model) else ()
        reason = f"unknown key '{last}'{suggestion(last, fields)}"
    elif name == "value_error":
        cause = error["ctx"]["error"]
        if isinstance(cause, KeyedError):
            location.append(cause.key)
        reason = str(cause)
    else:
        reason = _reason(error) + (_in_brackets(hint) if name != "none_of_them" else "")
    path = [part for part in location if not str(part).startswith("@") and part != "[key]"]
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return len(path), text, reason


def _reason(error: Any) -> str:
    if error["type"] not in _REASONS:
        return str(error["msg"])
    text, facts = repr(error["input"]), dict(error.get("ctx", {}))
    facts["expected"] = str(facts.get("expected")).replace(" or ", ", ")
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return _REASONS[error["type"]].format(shown=shown, value=error["input"], **facts)


def _in_brackets(description: str) -> str:
    """The first clause of a description: the rest is for the documentation."""
    first = description.split(". ")[0].split("; ")[0].rstrip(".")
    return f" ({first})" if first else ""


def _described(kind: Any, location: Sequence[Any], hint: str = "") -> tuple[Any, str]:
    """The type at the location of a validation error, and the nearest description."""
    kind, tags = bare(kind)
    if not location:
        return kind, hint
    first, *rest = location
    if isinstance(first, str) and first.startswith("@"):
        return _described(tags.get(first, Any), rest, hint)
    if is_model(kind):
        if field := kind.model_fields.get(first):
            return _described(field.annotation, rest, field.description or "")
        return Any, hint
    inner = [argument for argument in get_args(kind) if argument is not Ellipsis]
    return _described(inner[-1] if inner else Any, rest, hint)


def bare(kind: Any) -> tuple[Any, dict[str, Any]]:
    """A type without annotations and null; for a tagged union, also a mapping tag -> member."""
    while get_origin(kind) in (Annotated, Union, UnionType):
        members = [member for member in get_args(kind) if member is not NoneType]
        if get_origin(kind) is not Annotated and len(members) > 1:
            tags = {
                note.tag: member
                for member in members
                if get_origin(member) is Annotated
                for note in get_args(member)[1:]
                if isinstance(note, Tag)
            }
            if tags or get_origin(members[0]) is not Annotated:
                return kind, tags
        kind = members[0]  # of an annotated or optional type
    return kind, {}


def is_model(kind: Any) -> bool:
    """Whether a type is a model of settings."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)
