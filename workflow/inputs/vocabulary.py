"""Stage 3, vocabulary: the tokenizer of a cell, and what it is made from."""

import math
from collections.abc import Mapping
from typing import Any

from lexigraft.cells import SOURCE_VOCABULARY
from lexigraft.evaluation.unspaced_scripts import UNSPACED_LANGUAGES
from workflow.config.training_data import members
from workflow.cost import ENGLISH
from workflow.inputs.corpus import texts_of
from workflow.inputs.rule import Output, Wildcards, output
from workflow.study import Study


def tokenizer(study: Study, wildcards: Wildcards) -> Output:
    """The tokenizer of a cell or of anything computed for its tokens; if unchanged, the source."""
    if wildcards["vocabulary"] == SOURCE_VOCABULARY:
        return output(study, "prepare_source", wildcards)
    return output(study, "build_vocabulary", wildcards)


def corpus(study: Study, wildcards: Wildcards) -> Output:
    """The texts that it is made from: those of its entry, otherwise those of the cell."""
    return texts_of(study, _corpus(study, wildcards))


def settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The entry of the vocabulary."""
    return {key: value for key, value in _entry(study, wildcards).items() if key != "corpus"}


def taken(study: Study) -> list[str]:
    """The vocabularies that are another model's."""
    entries = study.config["vocabularies"].items()
    return [name for name, entry in entries if entry["mode"] == "replace" and "family" not in entry]


def taken_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """Location of another model's tokenizer."""
    entry = _entry(study, wildcards)
    if "plm" in entry:
        entry = study.config["languages"][wildcards["language"]]["plms"][entry["plm"]]
    return {
        "tokenizer": entry.get("tokenizer") or entry["model"],
        "revision": entry.get("revision"),
    }


def memory(study: Study, wildcards: Wildcards) -> int:
    """Megabytes for up to 50 MB of text, and for words and their counts of larger ones."""
    if _is_trained(study, wildcards):
        return 8000 + _per_part(study, wildcards, spaced=500, unspaced=1500)
    return 4000 + _per_part(study, wildcards, spaced=500, unspaced=3500)


def minutes(study: Study, wildcards: Wildcards) -> int:
    """Minutes for up to 50 MB of text, and for larger ones."""
    if _is_trained(study, wildcards):
        return 60 + _per_part(study, wildcards, spaced=6, unspaced=6)
    return 30 + _per_part(study, wildcards, spaced=6, unspaced=30)


def corpus_amount(
    study: Study, language: str, entry: Mapping[str, Any], sentence: float, token: float
) -> float:
    """The amount of a corpus that is read under the limits in the `text` of an entry.

    Its unit is that of `sentence` and `token`: the sizes of a sentence and of a source token.
    """
    limits = [study.cost_model.text(language).sentences * sentence]
    for key, count in entry.get("text", {}).items():
        each = count * (sentence if key.startswith("sentences") else token)
        per_language = key.endswith("per_language")
        limits.append(each * len(members(study.config, language)) if per_language else each)
    return min(limits)


def _per_part(study: Study, wildcards: Wildcards, spaced: int, unspaced: int) -> int:
    """What 100 MB of text above the first 50 MB take; a word of an unspaced script is a sentence.

    The languages of a group share the corpus equally.
    """
    language = _corpus(study, wildcards)
    text = study.cost_model.text(language)
    token = ENGLISH * text.bytes / text.characters
    size = corpus_amount(study, language, _entry(study, wildcards), text.bytes, token)
    parts = math.ceil(max(0.0, size - 5e7) / 1e8)
    names, languages = members(study.config, language), study.config["languages"]
    share = sum(languages[name]["code"] in UNSPACED_LANGUAGES for name in names) / len(names)
    return round(parts * (share * unspaced + (1 - share) * spaced))


def _is_trained(study: Study, wildcards: Wildcards) -> bool:
    return "family" in _entry(study, wildcards)


def _corpus(study: Study, wildcards: Wildcards) -> str:
    language: str = _entry(study, wildcards).get("corpus") or wildcards["language"]
    return language


def _entry(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    entry: dict[str, Any] = study.config["vocabularies"][wildcards["vocabulary"]]
    return entry
