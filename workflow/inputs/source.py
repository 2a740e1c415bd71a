"""Stage 1, source: packages and the pretrained models that are adapted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lexigraft.artifacts.cards import MODEL_FILES
from lexigraft.settings import plain
from workflow.inputs.rule import Output, Wildcards, output
from workflow.study import Study


def package_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The entry of a package; its folder is named after its name and version."""
    name = next(name for name in study.packages if _folder(study, name) == wildcards["package"])
    return {"name": name, **plain(study.packages[name])}


def memory(study: Study, key: str) -> Callable[[Any], int]:
    """Megabytes for a job with a source: a key of the `resources` of its entry."""
    return lambda wildcards: getattr(study.sources[wildcards.source].resources, key)


def tokenizer_of(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """Another source that has the same tokenizer, by the entry of this one."""
    name = study.sources[wildcards["source"]].tokenizer_of
    return output(study, "prepare_source", {"source": name}) if name else []


def package_of(study: Study, *entries: Any) -> Output | list[str]:
    """The package that contains the texts or models of some entries; none if there is none."""
    names = [name for entry in entries if (name := getattr(entry, "package", None))]
    return output(study, "fetch_package", {"package": _folder(study, names[0])}) if names else []


def sentence_encoder(study: Study, entry: Any) -> dict[str, str]:
    """Location of a sentence encoder: `{hub, revision}`, or `{folder}`, perhaps in a package."""
    package = package_of(study, entry)
    if isinstance(package, Output):
        return {"folder": package.file(entry.folder)}
    if entry.folder:
        return {"folder": f"{Path(entry.folder).expanduser()}{MODEL_FILES}"}
    return {"hub": entry.hub} | ({"revision": entry.revision} if entry.revision else {})


def _folder(study: Study, name: str) -> str:
    return f"{name}-{study.packages[name].version}"
