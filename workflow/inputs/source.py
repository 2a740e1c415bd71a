"""Stage 1, source: packages and the pretrained models that are adapted."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lexigraft.artifacts.cards import MODEL_FILES
from workflow.inputs.rule import Output, Wildcards, output
from workflow.study import Study


def package_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The entry of a package; its folder is named after its name and version."""
    packages = study.config["packages"]
    name = next(name for name in packages if _folder(study, name) == wildcards["package"])
    return {"name": name, **packages[name]}


def package(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The package that contains a source."""
    return package_of(study, [study.sources[wildcards["source"]]])


def memory(study: Study, wildcards: Wildcards, key: str) -> int:
    """Megabytes for a job with a source: a key of the `resources` of its entry."""
    megabytes: int = study.sources[wildcards["source"]]["resources"][key]
    return megabytes


def tokenizer_of(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """Another source that has the same tokenizer, by the entry of this one."""
    name = study.sources[wildcards["source"]].get("tokenizer_of")
    return output(study, "prepare_source", {"source": name}) if name else []


def package_of(study: Study, entries: Iterable[Mapping[str, Any]]) -> Output | list[str]:
    """The package that contains the texts or models of some entries; none if there is none."""
    names = [entry["package"] for entry in entries if "package" in entry]
    return output(study, "fetch_package", {"package": _folder(study, names[0])}) if names else []


def sentence_encoder(study: Study, entry: Mapping[str, str]) -> dict[str, str]:
    """Location of a sentence encoder: `{hub, revision}`, or `{folder}`, perhaps in a package."""
    package = package_of(study, [entry])
    if isinstance(package, Output):
        return {"folder": package.file(entry["folder"])}
    if "folder" in entry:
        return {"folder": f"{Path(entry['folder']).expanduser()}{MODEL_FILES}"}
    return {key: entry[key] for key in ("hub", "revision") if key in entry}


def _folder(study: Study, name: str) -> str:
    return f"{name}-{study.config['packages'][name]['version']}"
