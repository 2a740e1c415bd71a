"""Stage 4, auxiliary: what vectors of a tokenizer's tokens are computed from, by their kind."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.auxiliary.kinds.plm import ModelEmbeddings
from lexigraft.auxiliary.kinds.sentence_encoder import SentenceVectors
from lexigraft.auxiliary.kinds.word_vectors import WordVectors
from lexigraft.auxiliary.language_files import BINARY, word_vector_files
from lexigraft.auxiliary.registry import AuxiliaryKind
from lexigraft.cells import SOURCE_VOCABULARY
from lexigraft.settings import plain
from workflow.config.vocabularies import TakenReplacement
from workflow.cost import cost_model
from workflow.inputs.corpus import texts_of
from workflow.inputs.rule import Output, Wildcards, output
from workflow.inputs.source import sentence_encoder
from workflow.inputs.vocabulary import corpus_amount, tokenizer
from workflow.study import Study, corpus_of


def settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The entry without its corpus, an input; for `plm`, the model that the language names."""
    entry = _entry(study, wildcards)
    if isinstance(entry, ModelEmbeddings):
        plms = study.languages[wildcards["language"]].plms
        return {"kind": entry.kind, **plain(plms[entry.plm])}
    return {key: value for key, value in plain(entry).items() if key != "corpus"}


def corpus(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The texts on which vectors are trained: of the entry, otherwise of the cell."""
    if "corpus" not in _reads(study, wildcards):
        return []
    return texts_of(study, corpus_of(_entry(study, wildcards)) or wildcards["language"])


def counting_source(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The source whose tokenizer counts the tokens of the text, if the entry limits them."""
    limit = getattr(_entry(study, wildcards), "text", None)
    if limit and "corpus" in _reads(study, wildcards):
        return output(study, "prepare_source", wildcards)
    return []


def kind_inputs(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """Files of word vectors and of the dictionary that aligns them, and a sentence encoder.

    The encoder has encoded the tokens of the source already, once for all vocabularies.
    """
    inputs: dict[str, Any] = dict(_word_vectors(study, wildcards))
    if "encoder" in _reads(study, wildcards):
        inputs["encoder"] = sentence_encoder(study, _entry(study, wildcards))
        if wildcards["vocabulary"] != SOURCE_VOCABULARY:
            axes = {**wildcards, "vocabulary": SOURCE_VOCABULARY}
            vectors = vectors_of(study, wildcards["auxiliary"], axes)
            inputs["known"] = {"tokenizer": tokenizer(study, axes), "vectors": vectors}
    return inputs


def seed(study: Study, wildcards: Wildcards) -> list[Any] | None:
    """The seed of vectors that are trained."""
    axes = (wildcards[axis] for axis in ("source", "language", "vocabulary", "auxiliary"))
    trains = _entry(study, wildcards).trains
    return [study.settings.seed, "auxiliary", *axes] if trains else None


def versions(study: Study, wildcards: Wildcards) -> dict[str, int]:
    """The version of the kind."""
    entry = _entry(study, wildcards)
    return {f"auxiliary {entry.kind}": entry.version}


def memory(study: Study, wildcards: Wildcards) -> int:
    """Megabytes, including word vectors that are loaded completely."""
    cost = _entry(study, wildcards).cost
    megabytes = cost.megabytes + _per_million_tokens(
        study, wildcards, cost.megabytes_per_million_tokens
    )
    if cost.loads_files:
        paths = map(Path, _word_vectors(study, wildcards).values())
        sizes = (path.stat().st_size for path in paths if path.suffix == BINARY and path.is_file())
        megabytes += sum(size >> 20 for size in sizes)
    return megabytes


def minutes(study: Study, wildcards: Wildcards) -> int:
    """Minutes."""
    cost = _entry(study, wildcards).cost
    return cost.minutes + _per_million_tokens(study, wildcards, cost.minutes_per_million_tokens)


def vectors_of(study: Study, auxiliary: str, axes: Mapping[str, str]) -> Output:
    """The vectors of a tokenizer's tokens, computed once if they are equal for several cells.

    Models of a family share a tokenizer, which `tokenizer_of` defines. If the tokenizer is the same
    in every language and the vectors have their own corpus, they are the same in every language.
    So are vectors of the source's own tokens from an encoder, which reads no text.
    """
    entry, language = study.auxiliary[auxiliary], axes["language"]
    is_source = axes["vocabulary"] == SOURCE_VOCABULARY
    if is_source or isinstance(study.vocabularies[axes["vocabulary"]], TakenReplacement):
        language = corpus_of(entry) or language
    if isinstance(entry, SentenceVectors) and is_source:
        language = study.settings.cells[0].languages[0]
    wildcards = {
        "source": study.sources[axes["source"]].tokenizer_of or axes["source"],
        "language": language,
        "vocabulary": axes["vocabulary"],
        "auxiliary": auxiliary,
    }
    return output(study, "compute_vectors", wildcards)


def _per_million_tokens(study: Study, wildcards: Wildcards, amount: int) -> int:
    """An amount for each million training tokens, in the tokenizer whose tokens get vectors."""
    if not amount:
        return 0
    entry, model = _entry(study, wildcards), cost_model(study)
    language = corpus_of(entry) or wildcards["language"]
    density = model.density(wildcards["source"], language, wildcards["vocabulary"])
    sentence = model.text(language).characters * density
    return amount * round(corpus_amount(study, language, entry, sentence, 1.0) / 1e6)


def _entry(study: Study, wildcards: Wildcards) -> AuxiliaryKind:
    return study.auxiliary[wildcards["auxiliary"]]


def _reads(study: Study, wildcards: Wildcards) -> tuple[str, ...]:
    entry = _entry(study, wildcards)
    return entry.reads(plain(entry))


def _word_vectors(study: Study, wildcards: Wildcards) -> dict[str, str]:
    """The files of word vectors and of a dictionary that the kind reads."""
    name, language = wildcards["auxiliary"], wildcards["language"]
    entry = study.auxiliary[name]
    if not isinstance(entry, WordVectors):
        return {}
    paths = word_vector_files(name, entry, language, study.languages[language])
    return {key: str(path) for key, (_, path) in paths.items()}
