"""The stages of a cell: tokenizer, vectors of its tokens, initializer, training, export."""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from lexigraft.artifacts.completion import REPLACED
from lexigraft.auxiliary.language_files import BINARY, word_vector_files
from lexigraft.auxiliary.registry import auxiliary_kind
from lexigraft.cells import (
    CELL_PATH,
    NO_INITIALIZER,
    SOURCE_VOCABULARY,
    VOCABULARY_PATH,
    Cell,
    cell_of,
)
from lexigraft.corpus.sample_file import SAMPLES
from lexigraft.evaluation.unspaced_scripts import UNSPACED_LANGUAGES
from lexigraft.initialization.registry import declaration
from lexigraft.training.registry import objective
from lexigraft.training.settings import samples_of, teacher_of
from workflow.config.initializer_data import language_option
from workflow.config.training_data import members, training_gpus
from workflow.cost import ENGLISH
from workflow.stages.stage import Describe, Output, Resources, fixed, named, of_source, stage
from workflow.stages.study import Study
from workflow.stages.texts import corpus, sample_folder, sentence_encoder, source

AUXILIARY_PATH = f"{VOCABULARY_PATH}/{{auxiliary}}"
FIT_PATH = f"{VOCABULARY_PATH}/{{initializer}}/{{fit}}"
# Kind of auxiliary -> the rule that computes its vectors.
_VECTORS = {
    "fasttext": "train_fasttext",
    "glove": "train_glove",
    "word-vectors": "read_word_vectors",
    "plm": "read_plm",
    "sentence-encoder": "encode_tokens",
}

# ---- the outputs of these stages, by content ----------------------------------------------------


def tokenizer_axes(wildcards: Mapping[str, str]) -> dict[str, str]:
    """The wildcards that name a tokenizer."""
    return {axis: wildcards[axis] for axis in ("source", "language", "vocabulary")}


def vocabulary(study: Study, wildcards: Mapping[str, str]) -> Output:
    """The tokenizer of a cell or of anything computed for its tokens; if unchanged, the source."""
    name = wildcards["vocabulary"]
    if name == SOURCE_VOCABULARY:
        return source(study, wildcards["source"])
    rule = f"{way(study.config['vocabularies'][name])}_vocabulary"
    return study.output(rule, **tokenizer_axes(wildcards))


def initialization(study: Study, cell: Cell) -> Output | None:
    """The fitted initializer of a cell: one for all seeds unless it draws at random."""
    if cell.initializer == NO_INITIALIZER:
        return None
    drawn = study.config["initializers"][cell.initializer]["draws"]
    names = tokenizer_axes(cell.wildcards) | {"initializer": cell.initializer}
    return fit_of(study, **names, fit=f"seed-{cell.seed}" if drawn else "all-seeds")


def fit_of(study: Study, **wildcards: str) -> Output:
    """A fitted initializer by its axes and `fit`, which is `all-seeds` or `seed-<seed>`."""
    rule = "learn_initialization" if _learns(study, wildcards["initializer"]) else "initialize"
    return study.output(rule, **wildcards)


def training(study: Study, cell: Cell) -> Output:
    """A trained cell: changed tensors, log, and the checkpoints that its strategy retains."""
    return study.output("train", **cell.wildcards)


# ---- vocabulary --------------------------------------------------------------------------------


def way(entry: Mapping[str, Any]) -> str:
    """How a vocabulary is created: `expand` the source's, `train` on the corpus, or `take`."""
    if entry["mode"] in ("expand", "prune"):
        return "expand"
    return "train" if "family" in entry else "take"


def _vocabulary_stage(how: str, **options: Any) -> Callable[[Describe], Describe]:
    names = named("vocabulary", "vocabularies", lambda entry: way(entry) == how)
    return stage("vocabulary", f"vocabulary/{VOCABULARY_PATH}", names=names, **options)


def _learning(megabytes: int, minutes: int, unspaced: tuple[int, int]) -> Callable[..., Resources]:
    """Memory and minutes for up to 50 MB of text; larger texts require more.

    Each additional 100 MB of text take 500 MB, for words and their counts, and six minutes; in
    scripts without spaces, where a word is a sentence, they take the values of `unspaced`.
    """

    def resources(study: Study, **axes: str) -> Resources:
        entry = study.config["vocabularies"][axes["vocabulary"]]
        language = entry.get("corpus") or axes["language"]
        text = study.cost_model.text(language)
        token = ENGLISH * text.bytes / text.characters
        size = _amount_read(study, language, entry, text.bytes, token)
        parts = math.ceil(max(0.0, size - 5e7) / 1e8)
        names, languages = members(study.config, language), study.config["languages"]
        codes = [languages[name]["code"] for name in names]
        share = sum(code in UNSPACED_LANGUAGES for code in codes) / len(codes)
        memory, time = (
            round(parts * (share * own + (1 - share) * other))
            for own, other in zip(unspaced, (500, 6), strict=True)
        )
        return Resources(megabytes + memory, minutes + time)

    return resources


def _amount_read(
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


@_vocabulary_stage("expand", resources=_learning(4000, 30, (3500, 30)))
def expand_vocabulary(study: Study, **axes: str) -> dict[str, Any]:
    """The source's tokenizer with new tokens, or without unused ones."""
    entry = study.config["vocabularies"][axes["vocabulary"]]
    read = corpus(study, entry.get("corpus") or axes["language"])
    settings = {key: value for key, value in entry.items() if key != "corpus"}
    return {
        "settings": settings,
        "inputs": {"source": source(study, axes["source"]), "corpus": read},
    }


@_vocabulary_stage("train", resources=_learning(8000, 60, (1500, 6)))
def train_vocabulary(study: Study, **axes: str) -> dict[str, Any]:
    """A tokenizer trained on the corpus, which replaces the source's."""
    return expand_vocabulary(study, **axes)


@_vocabulary_stage("take")
def take_vocabulary(study: Study, **axes: str) -> dict[str, Any]:
    """Another model's tokenizer, which replaces the source's."""
    entry = study.config["vocabularies"][axes["vocabulary"]]
    if "plm" in entry:
        entry = study.config["languages"][axes["language"]]["plms"][entry["plm"]]
    place = entry.get("tokenizer") or entry["model"]
    return {
        "settings": {"tokenizer": place, "revision": entry.get("revision")},
        "inputs": expand_vocabulary(study, **axes)["inputs"],
    }


# ---- auxiliary ---------------------------------------------------------------------------------


def _auxiliary_stage(kind: str, resources: Callable[..., Resources]) -> Any:
    names = named("auxiliary", "auxiliary", lambda entry: entry["kind"] == kind)
    return stage(
        "auxiliary",
        f"auxiliary/{AUXILIARY_PATH}",
        script="compute_vectors",
        resources=resources,
        names=names,
    )


def _million_tokens(study: Study, axes: Mapping[str, str]) -> int:
    """Millions of training tokens of vectors, in the tokenizer whose tokens get the vectors."""
    entry, model = study.config["auxiliary"][axes["auxiliary"]], study.cost_model
    language = entry.get("corpus") or axes["language"]
    sentence = model.text(language).characters * model.density(
        axes["source"], language, axes["vocabulary"]
    )
    return round(_amount_read(study, language, entry, sentence, 1.0) / 1e6)


def _fasttext_resources(study: Study, **wildcards: str) -> Resources:
    """Three epochs on one thread; character n-grams alone take 2.4 GB."""
    return Resources(5000, 60 + _million_tokens(study, wildcards))


@_auxiliary_stage("fasttext", _fasttext_resources)
def train_fasttext(study: Study, **wildcards: str) -> dict[str, Any]:
    """fastText vectors of a tokenizer's tokens."""
    described = _vectors(study, **wildcards)
    described["inputs"]["corpus"] = corpus(study, wildcards["language"])
    if "text" in described["settings"]:  # the source's tokenizer counts tokens
        described["inputs"]["source"] = source(study, wildcards["source"])
    names = AUXILIARY_PATH.format(**wildcards).split("/")
    return {**described, "seed": [study.config["seed"], "auxiliary", *names]}


def _glove_resources(study: Study, **wildcards: str) -> Resources:
    """40 bytes and fifteen updates for each pair of co-occurring tokens.

    30,000 sentences of 40 tokens have at most 36 million such pairs; larger texts are assumed to
    have 1.5 pairs per token.
    """
    millions = _million_tokens(study, wildcards)
    return Resources(4000 + 60 * millions, 120 + millions)


@_auxiliary_stage("glove", _glove_resources)
def train_glove(study: Study, **wildcards: str) -> dict[str, Any]:
    """GloVe vectors of a tokenizer's tokens, trained on the cell's corpus or on their own."""
    described = train_fasttext(study, **wildcards)
    settings = dict(described["settings"])
    if text := settings.pop("corpus", None):
        described["inputs"]["corpus"] = corpus(study, text)
    return described | {"settings": settings}


def _reading(study: Study, **wildcards: str) -> Resources:
    """Each .bin file is loaded completely."""
    files = map(Path, _word_vectors(study, **wildcards).values())
    sizes = (file.stat().st_size for file in files if file.suffix == BINARY and file.is_file())
    return Resources(2000 + sum(size >> 20 for size in sizes), 30)


@_auxiliary_stage("word-vectors", _reading)
def read_word_vectors(study: Study, **wildcards: str) -> dict[str, Any]:
    """Vectors of a tokenizer's tokens from word vectors in files."""
    described = _vectors(study, **wildcards)
    described["inputs"] |= _word_vectors(study, **wildcards)
    return described


# Only the input matrix of the model is read.
@_auxiliary_stage("plm", fixed(4000, 60))
def read_plm(study: Study, **wildcards: str) -> dict[str, Any]:
    """Vectors of a tokenizer's tokens from another model's embeddings."""
    plm = study.config["auxiliary"][wildcards["auxiliary"]]["plm"]
    model = study.config["languages"][wildcards["language"]]["plms"][plm]
    return {**_vectors(study, **wildcards), "settings": {"kind": "plm", **model}}


@_auxiliary_stage("sentence-encoder", fixed(6000, 60))
def encode_tokens(study: Study, **wildcards: str) -> dict[str, Any]:
    """Vectors of a tokenizer's tokens from a sentence encoder, which encodes the source's once."""
    described = _vectors(study, **wildcards)
    inputs = described["inputs"]
    inputs["encoder"] = sentence_encoder(study, described["settings"])
    if wildcards["vocabulary"] != SOURCE_VOCABULARY:
        axes = tokenizer_axes(wildcards) | {"vocabulary": SOURCE_VOCABULARY}
        vectors = _vectors_of(study, wildcards["auxiliary"], axes)
        inputs["known"] = {"tokenizer": vocabulary(study, axes), "vectors": vectors}
    return described


def _vectors(study: Study, **wildcards: str) -> dict[str, Any]:
    settings = study.config["auxiliary"][wildcards["auxiliary"]]
    kind = settings["kind"]
    return {
        "settings": settings,
        "versions": {f"auxiliary {kind}": auxiliary_kind(kind).version},
        "inputs": {"tokenizer": vocabulary(study, wildcards)},
    }


def _word_vectors(study: Study, **wildcards: str) -> dict[str, str]:
    auxiliary, language = wildcards["auxiliary"], wildcards["language"]
    settings, texts = study.config["auxiliary"][auxiliary], study.config["languages"][language]
    files = word_vector_files(auxiliary, settings, language, texts)
    return {kind: str(path) for kind, (_, path) in files.items()}


def _vectors_of(study: Study, auxiliary: str, axes: Mapping[str, str]) -> Output:
    """The vectors of a tokenizer's tokens, computed once if they are equal for several cells.

    Models of a family share a tokenizer, which `tokenizer_of` defines. If the tokenizer is the same
    in every language and the vectors have their own corpus, they are the same in every language.
    So are vectors of the source's own tokens from an encoder, which reads no text.
    """
    entry, own = study.config["auxiliary"][auxiliary], dict(axes)
    own["source"] = study.config["sources"][axes["source"]].get("tokenizer_of", axes["source"])
    vocabulary = study.config["vocabularies"].get(axes["vocabulary"], {})
    if entry.get("corpus") and (
        axes["vocabulary"] == SOURCE_VOCABULARY or "tokenizer" in vocabulary
    ):
        own["language"] = entry["corpus"]
    elif entry["kind"] == "sentence-encoder" and axes["vocabulary"] == SOURCE_VOCABULARY:
        own["language"] = study.config["cells"][0]["languages"][0]
    return study.output(_VECTORS[entry["kind"]], **own, auxiliary=auxiliary)


# ---- initialization ----------------------------------------------------------------------------


def _learns(study: Study, initializer: str) -> bool:
    """Whether an initializer learns from the source's weights, and so needs a training machine."""
    return declaration(study.config["initializers"][initializer]["method"]).learns


def _fit_stage(learned: bool, **options: Any) -> Callable[[Describe], Describe]:
    def names(study: Study) -> Mapping[str, Iterable[str]]:
        used = {cell.initializer for cell in study.cells} - {NO_INITIALIZER}
        return {"initializer": [name for name in used if _learns(study, name) == learned]}

    return stage("initialization", f"initialization/{FIT_PATH}", names=names, **options)


@_fit_stage(learned=False, resources=of_source("initialization_mb", 30))
def initialize(study: Study, **wildcards: str) -> dict[str, Any]:
    """A fitted initializer."""
    entry, axes = study.config["initializers"][wildcards["initializer"]], tokenizer_axes(wildcards)
    vectors = {}
    for role, name in entry["auxiliary"].items():
        # Vectors in the role `source` are those of the source's own tokens, others of the cell's.
        own = axes | ({"vocabulary": SOURCE_VOCABULARY} if role == "source" else {})
        vectors[role] = _vectors_of(study, name, own)
    names = members(study.config, axes["language"])
    paths = [study.config["languages"][name]["dictionary"] for name in names]
    dictionaries = [path for path in paths if path and entry["dictionary"]]
    pairs = entry["samples"] and sample_folder(study, axes["language"], entry["samples"])
    language = language_option(study.config, wildcards["initializer"], axes["language"])
    return {
        "settings": {key: entry[key] for key in ("method", "text") if key in entry}
        | {"options": entry["options"] | language},
        "inputs": {
            "source": source(study, axes["source"]),
            "tokenizer": vocabulary(study, axes),
            "corpus": corpus(study, axes["language"]),
            **({"auxiliary": vectors} if vectors else {}),
            **({"dictionaries": dictionaries} if dictionaries else {}),
            **({"samples": pairs.file(SAMPLES)} if pairs else {}),
        },
        "seed": [study.config["seed"], "initialization", FIT_PATH.format(**wildcards)],
        "versions": {f"initializer {entry['method']}": declaration(entry["method"]).version},
    }


@_fit_stage(
    learned=True,
    script="initialize",
    resources=of_source("training_mb", 240, gpus=1),
)
def learn_initialization(study: Study, **wildcards: str) -> dict[str, Any]:
    """A fitted initializer that learns from the source model or its matrices."""
    return initialize(study, **wildcards)


# ---- training ----------------------------------------------------------------------------------


def _training(study: Study, **wildcards: str) -> Resources:
    """Resources for all GPUs of a training; a cell without phases is only scored."""
    resources = study.config["sources"][wildcards["source"]]["resources"]
    strategy, model = study.config["strategies"][wildcards["strategy"]], study.cost_model
    if not strategy["phases"]:
        minutes = model.minutes(resources, "evaluation_minutes", lambda: model.training(wildcards))
        return Resources(resources["evaluation_mb"], minutes, gpus=1)
    gpus, megabytes, _ = training_gpus(study.config, wildcards["source"], wildcards["strategy"])
    factor, teacher = strategy["resources"], teacher_of(strategy, wildcards["source"])
    own = study.config["sources"][teacher]["resources"]["evaluation_mb"] if teacher else 0
    each = round(megabytes * factor["memory"]) + own
    minutes = model.minutes(resources, "training_minutes", lambda: model.training(wildcards, gpus))
    return Resources(gpus * each, max(1, round(minutes * factor["time"])), gpus)


def launcher(study: Study, source_name: str, strategy_name: str, gpus: int) -> str:
    """The command that runs a training script with one process per GPU."""
    if gpus < 2:
        return "python"
    *_, sharded = training_gpus(study.config, source_name, strategy_name)
    return f"{'env LEXIGRAFT_SHARDED=1 ' * sharded}torchrun --standalone --nproc-per-node {gpus}"


@stage("training", f"training/{CELL_PATH}", resources=_training)
def train(study: Study, **axes: str) -> dict[str, Any]:
    """A trained cell."""
    cell = cell_of(axes)
    strategy = study.config["strategies"][cell.strategy]
    read = {
        name: sample_folder(study, cell.language, name).file(SAMPLES)
        for name in samples_of(strategy)
    }
    teacher = teacher_of(strategy, cell.source)
    objectives = sorted({phase["objective"] for phase in strategy["phases"]})
    return {
        "settings": strategy,
        "inputs": {
            "source": source(study, cell.source),
            "tokenizer": vocabulary(study, axes),
            **({"initialization": fit} if (fit := initialization(study, cell)) else {}),
            "corpus": corpus(study, cell.language),
            **({"samples": read} if read else {}),
            **({"teacher": source(study, teacher)} if teacher else {}),
        },
        # An earlier cell with other settings or versions is moved there before this one is trained.
        "outputs": {"replaced": f"{study.results}/{REPLACED}"},
        "cell": vars(cell),
        "seed": [study.config["seed"], "training", cell.path],
        "versions": {f"objective {name}": objective(name).version for name in objectives},
    }


@stage("training", f"export/{CELL_PATH}", script="export", resources=of_source("training_mb", 30))
def export_cell(study: Study, **axes: str) -> dict[str, Any]:
    """A trained cell as a plain Hugging Face folder."""
    cell = cell_of(axes)
    return {"settings": {}, "inputs": {"cell": training(study, cell)}}
