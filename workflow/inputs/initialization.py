"""Stage 5, initialization: what initializers read, and which of them learn."""

from typing import Any

from lexigraft.cells import NO_INITIALIZER, SOURCE_VOCABULARY, Cell
from lexigraft.corpus.sample_file import SAMPLES
from lexigraft.initialization.registry import declaration
from workflow.inputs.auxiliary import vectors_of
from workflow.inputs.corpus import samples_of
from workflow.inputs.rule import Output, Wildcards, output
from workflow.study import Study


def auxiliary(study: Study, wildcards: Wildcards) -> dict[str, Output]:
    """Vectors by their role: those of the source's own tokens, or of the cell's tokenizer."""
    of_source = {**wildcards, "vocabulary": SOURCE_VOCABULARY}
    return {
        role: vectors_of(study, name, of_source if role == "source" else wildcards)
        for role, name in study.initializers[wildcards["initializer"]].auxiliary.items()
    }


def dictionaries(study: Study, wildcards: Wildcards) -> list[str]:
    """The bilingual dictionaries of the language, or of the members of a group."""
    if not study.initializers[wildcards["initializer"]].dictionary:
        return []
    names = study.members(wildcards["language"])
    return [path for name in names if (path := study.languages[name].dictionary)]


def samples(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """Parallel samples, whose pairs are aligned."""
    name = study.initializers[wildcards["initializer"]].samples
    return samples_of(study, wildcards["language"], name).file(SAMPLES) if name else []


def settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """Method and options of the initializer."""
    entry = study.initializers[wildcards["initializer"]]
    language = study.language_option(wildcards["initializer"], wildcards["language"])
    text = {"text": entry.text} if entry.text else {}
    return {"method": entry.method, **text, "options": entry.options | language}


def versions(study: Study, wildcards: Wildcards) -> dict[str, int]:
    """The version of the method."""
    method = study.initializers[wildcards["initializer"]].method
    return {f"initializer {method}": declaration(method).version}


def learning(study: Study) -> list[str]:
    """The initializers that learn from the source's weights, and so need a training machine."""
    names = {cell.initializer for cell in study.cells} - {NO_INITIALIZER}
    return [name for name in sorted(names) if declaration(study.initializers[name].method).learns]


def fit_of(study: Study, cell: Cell) -> Output | list[str]:
    """The fitted initializer of a cell: one for all seeds unless it draws at random."""
    if cell.initializer == NO_INITIALIZER:
        return []
    return output(study, "initialize", cell.wildcards | {"fit": fit_name(study, cell)})


def fit_name(study: Study, cell: Cell) -> str:
    """The wildcard `fit` of a cell's initializer."""
    return f"seed-{cell.seed}" if study.initializers[cell.initializer].draws else "all-seeds"
