"""The user's request to `lexigraft adapt`, and its translation into entries of a study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lexigraft.errors import unknown
from lexigraft.installation import PIPELINE
from lexigraft.yaml_files import read_yaml
from workflow.adaptation.text import UNDETERMINED, TextFacts, language_of, measure_text, script_name
from workflow.commands.texts import check_code, check_hub_name, check_texts, source_name
from workflow.config.initializer_data import MODEL, check_folder
from workflow.config.registries import load_registries


@dataclass(frozen=True)
class Request:
    """The user's request; options that are None are chosen. A changed request is a new adaptation.

    `text` and `english` are files and folders, `field` their key in JSON Lines or Parquet.
    """

    model: str
    text: list[str]
    field: str
    language: str | None
    new_tokens: int | None
    initializer: str
    strategy: str | None
    minutes: float
    tokens: int | None
    english: str | None
    text_license: str | None


@dataclass(frozen=True)
class ResolvedRequest:
    """The model and the language of an adaptation: names in the study, and their entries."""

    source: str
    sources: Mapping[str, Any]
    model: str
    code: str
    language: str
    script: str
    text: Mapping[str, Any]
    english: Mapping[str, Any] | None = None
    text_license: str | None = None
    baselines: bool = False

    @property
    def name(self) -> str:
        """The name of the language's entry."""
        return f"my-{self.code}"


def resolve_request(request: Request, baselines: bool) -> tuple[TextFacts, ResolvedRequest]:
    """The facts of the text, and the model and language of the adaptation."""
    registries = load_registries()
    source, sources = source_entry(request.model, registries["sources"])
    for option, name, known in (
        ("--initializer", request.initializer, registries["initializers"]),
        ("--strategy", request.strategy, registries["strategies"]),
    ):
        if name is not None and name not in known:
            raise unknown(option, name, known)
    if request.language is not None:
        check_code(request.language)
    settings = _text_settings(request.text, request.field, "--text")
    facts = measure_text(settings)
    code = request.language or language_of(facts)
    names = read_yaml(PIPELINE / "config/prompts/names.yaml")["names"]
    if code == UNDETERMINED:
        names = {code: f"{script_name(facts.script)}-script text"}
    folder = sources.get(source, {}).get("folder")
    return facts, ResolvedRequest(
        source=source,
        sources=sources,
        model=Path(folder).name if folder else request.model,
        code=code,
        language=names.get(code, code),
        script=facts.script,
        text=settings,
        english=_text_settings([request.english], request.field, "--english")
        if request.english
        else None,
        text_license=request.text_license,
        baselines=baselines,
    )


def _text_settings(places: Sequence[str], field: str, option: str) -> dict[str, Any]:
    return {"loader": "text", "paths": check_texts(places, option), "field": field}


def source_entry(model: str, known: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of a source model in the study, and its `sources`, empty for registry entries.

    Raises a `UserError` if it is neither in the registry nor a model folder nor a name on the hub.
    """
    if model in known:
        return model, {}
    folder = Path(model).expanduser()
    name = source_name(model, known)
    if folder.is_dir():
        check_folder(str(folder), "--model", MODEL)
        return name, {name: {"folder": str(folder.resolve())}}
    check_hub_name(model, known)
    return name, {name: {"hub": model}}
