"""Stage 5, initialization: what initializers read, and which of them learn."""

from typing import Any

from lexigraft.cells import NO_INITIALIZER, SOURCE_VOCABULARY, Cell
from lexigraft.corpus.sample_file import SAMPLES
from lexigraft.initialization.registry import declaration
from workflow.config.initializer_data import language_option
from workflow.config.training_data import members
from workflow.inputs.auxiliary import vectors_of
from workflow.inputs.corpus import samples_of
from workflow.inputs.rule import Output, Wildcards, output
from workflow.study import Study


def auxiliary(study: Study, wildcards: Wildcards) -> dict[str, Output]:
    """Vectors by their role: those of the source's own tokens, or of the cell's tokenizer."""
    return {
        role: vectors_of(
            study,
            name,
            {**wildcards, "vocabulary": SOURCE_VOCABULARY} if role == "source" else wildcards,
        )
        for role, name in _entry(study, wildcards)["auxiliary"].items()
    }


def dictionaries(study: Study, wildcards: Wildcards) -> list[str]:
    """The bilingual dictionaries of the language, or of the members of a group."""
    if not _entry(study, wildcards)["dictionary"]:
        return []
    names = members(study.config, wildcards["language"])
    paths = (study.config["languages"][name]["dictionary"] for name in names)
    return [path for path in paths if path]


def samples(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """Parallel samples, whose pairs are aligned."""
    name = _entry(study, wildcards)["samples"]
    return samples_of(study, wildcards["language"], name).file(SAMPLES) if name else []


def settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """Method and options of the initializer."""
    entry = _entry(study, wildcards)
    language = language_option(study.config, wildcards["initializer"], wildcards["language"])
    settings: dict[str, Any] = {key: entry[key] for key in ("method", "text") if key in entry}
    return settings | {"options": entry["options"] | language}


def seed(study: Study, wildcards: Wildcards) -> list[Any]:
    """The seed of a fitted initializer."""
    axes = ("source", "language", "vocabulary", "initializer", "fit")
    path = "/".join(wildcards[axis] for axis in axes)
    return [study.config["seed"], "initialization", path]


def versions(study: Study, wildcards: Wildcards) -> dict[str, int]:
    """The version of the method."""
    method = _entry(study, wildcards)["method"]
    return {f"initializer {method}": declaration(method).version}


def learning(study: Study) -> list[str]:
    """The initializers that learn from the source's weights, and so need a training machine."""
    names = {cell.initializer for cell in study.cells} - {NO_INITIALIZER}
    initializers = study.config["initializers"]
    return [name for name in sorted(names) if declaration(initializers[name]["method"]).learns]


def fit_of(study: Study, cell: Cell) -> Output | list[str]:
    """The fitted initializer of a cell: one for all seeds unless it draws at random."""
    if cell.initializer == NO_INITIALIZER:
        return []
    return output(study, "initialize", cell.wildcards | {"fit": fit_name(study, cell)})


def fit_name(study: Study, cell: Cell) -> str:
    """The wildcard `fit` of a cell's initializer."""
    drawn = study.config["initializers"][cell.initializer]["draws"]
    return f"seed-{cell.seed}" if drawn else "all-seeds"


def _entry(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    entry: dict[str, Any] = study.config["initializers"][wildcards["initializer"]]
    return entry
