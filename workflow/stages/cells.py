"""What makes a cell: tokenizer, vectors of its tokens, initializer, training, export.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from lexigraft.auxiliary.language_files import BINARY, word_vector_files
from lexigraft.cells import (
    CELL_PATH,
    NO_INITIALIZER,
    SOURCE_VOCABULARY,
    VOCABULARY_PATH,
    Cell,
    cell_of,
)
from lexigraft.corpus.sample_file import SAMPLES
from lexigraft.initialization.registry import method_file, read_roles
from lexigraft.source.hub import is_folder
from lexigraft.training.registry import objective_file
from lexigraft.training.settings import samples_of, teacher_of
from workflow.stages.stage import Output, Resources, stage
from workflow.stages.study import Study
from workflow.stages.texts import corpus, members, samples, source

AUXILIARY_PATH = f"{VOCABULARY_PATH}/{{auxiliary}}"
FIT_PATH = f"{VOCABULARY_PATH}/{{initializer}}/{{fit}}"
# Kind of auxiliary -> the rule that makes its vectors.
_VECTORS = {
    "fasttext": "train_fasttext",
    "glove": "train_glove",
    "word-vectors": "read_word_vectors",
    "plm": "read_plm",
}

# ---- the outputs of these stages, by what they hold ---------------------------------------------


def vocabulary(study: Study, source_name: str, language: str, name: str) -> Output:
    """A tokenizer; an unchanged vocabulary is the source's own."""
    if name == SOURCE_VOCABULARY:
        return source(study, source_name)
    rule = f"{way(study.config['vocabularies'][name])}_vocabulary"
    return study.output(rule, source=source_name, language=language, vocabulary=name)


def auxiliaries(study: Study, initializer: str, **axes: str) -> dict[str, Output]:
    """Role -> static vectors that an initializer reads.

    Those in the role `source` are of the source's own tokens, all others of the cell's.
    """
    found = {}
    for role, name in study.config["initializers"][initializer]["auxiliary"].items():
        own = {"vocabulary": SOURCE_VOCABULARY} if role == "source" else {}
        rule = _VECTORS[study.config["auxiliary"][name]["kind"]]
        found[role] = study.output(rule, **{**axes, **own}, auxiliary=name)
    return found


def initialization(study: Study, cell: Cell) -> Output | None:
    """The fitted initializer of a cell: one for all seeds unless it draws at random."""
    if cell.initializer == NO_INITIALIZER:
        return None
    drawn = study.config["initializers"][cell.initializer]["draws"]
    return fit_of(
        study,
        source=cell.source,
        language=cell.language,
        vocabulary=cell.vocabulary,
        initializer=cell.initializer,
        fit=f"seed-{cell.seed}" if drawn else "all-seeds",
    )


def fit_of(study: Study, **wildcards: str) -> Output:
    """A fitted initializer by its axes and `fit`, which is `all-seeds` or `seed-<seed>`."""
    rule = "learn_initialization" if _learns(study, wildcards["initializer"]) else "initialize"
    return study.output(rule, **wildcards)


def training(study: Study, cell: Cell) -> Output:
    """A trained cell: its changed tensors, its log, and the checkpoints that its strategy keeps."""
    return study.output("train", **cell.wildcards)


# ---- vocabulary --------------------------------------------------------------------------------


def way(entry: Mapping[str, Any]) -> str:
    """How a vocabulary is made: `expand`; `train`, on the corpus; `take`, from another model."""
    if entry["mode"] == "expand":
        return "expand"
    return "train" if "family" in entry else "take"


def _made(how: str) -> Callable[[Study], Mapping[str, Iterable[str]]]:
    def names(study: Study) -> Mapping[str, Iterable[str]]:
        entries = study.config["vocabularies"].items()
        return {"vocabulary": [name for name, entry in entries if way(entry) == how]}

    return names


def _fixed(memory_mb: int, minutes: int) -> Callable[..., Resources]:
    return lambda study, **wildcards: Resources(memory_mb, minutes)


@stage(
    "vocabulary",
    f"vocabulary/{VOCABULARY_PATH}",
    resources=_fixed(4000, 30),
    names=_made("expand"),
)
def expand_vocabulary(study: Study, **axes: str) -> dict[str, Any]:
    """The source's tokenizer with new tokens."""
    return _vocabulary(study, study.config["vocabularies"][axes["vocabulary"]], **axes)


@stage(
    "vocabulary",
    f"vocabulary/{VOCABULARY_PATH}",
    resources=_fixed(8000, 60),
    names=_made("train"),
)
def train_vocabulary(study: Study, **axes: str) -> dict[str, Any]:
    """A tokenizer trained on the corpus in the place of the source's."""
    return _vocabulary(study, study.config["vocabularies"][axes["vocabulary"]], **axes)


@stage("vocabulary", f"vocabulary/{VOCABULARY_PATH}", names=_made("take"))
def take_vocabulary(study: Study, **axes: str) -> dict[str, Any]:
    """Another model's tokenizer in the place of the source's."""
    entry = study.config["vocabularies"][axes["vocabulary"]]
    if "plm" in entry:
        model = study.config["languages"][axes["language"]]["plms"][entry["plm"]]
        settings = {"tokenizer": model["model"], "revision": model.get("revision")}
    else:
        settings = {"tokenizer": entry["tokenizer"], "revision": entry.get("revision")}
    described = _vocabulary(study, settings, **axes)
    if is_folder(settings["tokenizer"]):
        file = f"{Path(settings['tokenizer']).expanduser()}/tokenizer.json"
        described["inputs"]["files"] = [file]
    return described


def _vocabulary(study: Study, settings: dict[str, Any], **axes: str) -> dict[str, Any]:
    inputs = {"source": source(study, axes["source"]), "corpus": corpus(study, axes["language"])}
    return {"settings": settings, "inputs": inputs}


# ---- auxiliary ---------------------------------------------------------------------------------


def _of_kind(kind: str) -> Callable[[Study], Mapping[str, Iterable[str]]]:
    def names(study: Study) -> Mapping[str, Iterable[str]]:
        entries = study.config["auxiliary"].items()
        return {"auxiliary": [name for name, entry in entries if entry["kind"] == kind]}

    return names


# With character n-grams 2.4 GB for these alone.
@stage(
    "auxiliary",
    f"auxiliary/{AUXILIARY_PATH}",
    resources=_fixed(5000, 60),
    names=_of_kind("fasttext"),
)
def train_fasttext(study: Study, **wildcards: str) -> dict[str, Any]:
    """fastText vectors of a tokenizer's tokens."""
    return _trained_vectors(study, **wildcards)


# 40 bytes for each pair of tokens that stand near each other: 30,000 sentences of 40 tokens have 36
# million of them at most.
@stage(
    "auxiliary",
    f"auxiliary/{AUXILIARY_PATH}",
    resources=_fixed(4000, 120),
    names=_of_kind("glove"),
)
def train_glove(study: Study, **wildcards: str) -> dict[str, Any]:
    """GloVe vectors of a tokenizer's tokens."""
    return _trained_vectors(study, **wildcards)


def _reading(study: Study, **wildcards: str) -> Resources:
    """Each .bin is loaded as a whole."""
    places = _word_vectors(study, wildcards["auxiliary"], wildcards["language"]).values()
    files = (Path(place) for place in places if place.endswith(BINARY))
    return Resources(2000 + sum(file.stat().st_size >> 20 for file in files if file.is_file()), 30)


@stage(
    "auxiliary",
    f"auxiliary/{AUXILIARY_PATH}",
    resources=_reading,
    names=_of_kind("word-vectors"),
)
def read_word_vectors(study: Study, **wildcards: str) -> dict[str, Any]:
    """Vectors of a tokenizer's tokens from word vectors in files."""
    described = _vectors(study, **wildcards)
    described["inputs"] |= _word_vectors(study, wildcards["auxiliary"], wildcards["language"])
    return described


# Of the model only its input matrix is read.
@stage(
    "auxiliary",
    f"auxiliary/{AUXILIARY_PATH}",
    resources=_fixed(4000, 60),
    names=_of_kind("plm"),
)
def read_plm(study: Study, **wildcards: str) -> dict[str, Any]:
    """Vectors of a tokenizer's tokens from another model's rows."""
    plm = study.config["auxiliary"][wildcards["auxiliary"]]["plm"]
    model = study.config["languages"][wildcards["language"]]["plms"][plm]
    return {**_vectors(study, **wildcards), "settings": {"kind": "plm", **model}}


def _vectors(study: Study, **wildcards: str) -> dict[str, Any]:
    axes = (wildcards[axis] for axis in ("source", "language", "vocabulary"))
    return {
        "settings": study.config["auxiliary"][wildcards["auxiliary"]],
        "inputs": {"tokenizer": vocabulary(study, *axes)},
    }


def _trained_vectors(study: Study, **wildcards: str) -> dict[str, Any]:
    described = _vectors(study, **wildcards)
    described["inputs"]["corpus"] = corpus(study, wildcards["language"])
    names = AUXILIARY_PATH.format(**wildcards).split("/")
    return {**described, "seed": [study.config["seed"], "auxiliary", *names]}


def _word_vectors(study: Study, auxiliary: str, language: str) -> dict[str, str]:
    settings, texts = study.config["auxiliary"][auxiliary], study.config["languages"][language]
    files = word_vector_files(auxiliary, settings, language, texts)
    return {kind: str(path) for kind, (_, path) in files.items()}


# ---- initialization ----------------------------------------------------------------------------


def _learns(study: Study, initializer: str) -> bool:
    """Whether an initializer learns from the source's weights, on the machine that trains it."""
    method = study.config["initializers"][initializer]["method"]
    return bool({"matrices", "model"} & {*read_roles(method)})


def _fitting(study: Study, **wildcards: str) -> Resources:
    resources = study.config["sources"][wildcards["source"]]["resources"]
    return Resources(resources["initialization_mb"], 30)


def _learning(study: Study, **wildcards: str) -> Resources:
    resources = study.config["sources"][wildcards["source"]]["resources"]
    return Resources(resources["training_mb"], resources["training_minutes"], gpus=1)


def _initializers(learned: bool) -> Callable[[Study], Mapping[str, Iterable[str]]]:
    def names(study: Study) -> Mapping[str, Iterable[str]]:
        used = {cell.initializer for cell in study.cells} - {NO_INITIALIZER}
        return {"initializer": [name for name in used if _learns(study, name) == learned]}

    return names


@stage(
    "initialization",
    f"initialization/{FIT_PATH}",
    resources=_fitting,
    names=_initializers(learned=False),
)
def initialize(study: Study, **wildcards: str) -> dict[str, Any]:
    """An initializer, fitted."""
    entry = study.config["initializers"][wildcards["initializer"]]
    axes = {axis: wildcards[axis] for axis in ("source", "language", "vocabulary")}
    vectors = auxiliaries(study, wildcards["initializer"], **axes)
    dictionaries = _dictionaries(study, entry, axes["language"])
    return {
        "settings": {"method": entry["method"], "options": entry["options"]},
        "inputs": {
            "source": source(study, axes["source"]),
            "tokenizer": vocabulary(study, *axes.values()),
            "corpus": corpus(study, axes["language"]),
            **({"auxiliary": vectors} if vectors else {}),
            **({"dictionaries": dictionaries} if dictionaries else {}),
        },
        "seed": [study.config["seed"], "initialization", FIT_PATH.format(**wildcards)],
        "code": [method_file(entry["method"])],
    }


@stage(
    "initialization",
    f"initialization/{FIT_PATH}",
    script="initialize",
    resources=_learning,
    names=_initializers(learned=True),
)
def learn_initialization(study: Study, **wildcards: str) -> dict[str, Any]:
    """The same of an initializer that learns from the source model or its matrices."""
    return initialize(study, **wildcards)


def _dictionaries(study: Study, entry: Mapping[str, Any], language: str) -> list[str]:
    """Those that an initializer reads, if it does: of the cell's language, or of a group's."""
    if not entry["dictionary"]:
        return []
    texts = (study.config["languages"][name] for name in members(study, language) or [language])
    return [text["dictionary"] for text in texts if text["dictionary"]]


# ---- training ----------------------------------------------------------------------------------


def _training(study: Study, **wildcards: str) -> Resources:
    """On all of its GPUs together; a cell without phases is only scored."""
    resources = study.config["sources"][wildcards["source"]]["resources"]
    strategy = study.config["strategies"][wildcards["strategy"]]
    if not strategy["phases"]:
        return Resources(resources["evaluation_mb"], resources["evaluation_minutes"], gpus=1)
    gpus, factor = resources["training_gpus"], strategy["resources"]
    teacher = teacher_of(strategy)
    own = study.config["sources"][teacher]["resources"]["evaluation_mb"] if teacher else 0
    each = round(resources["training_mb"] * factor["memory"]) + own
    minutes = max(1, round(resources["training_minutes"] * factor["time"]))
    return Resources(gpus * each, minutes, gpus)


def launcher(study: Study, source_name: str, gpus: int) -> str:
    """The command that runs a training script, with a process on each of its GPUs."""
    if gpus < 2:
        return "python"
    sharded = study.config["sources"][source_name]["resources"]["training_sharded"]
    return f"{'env LEXIGRAFT_SHARDED=1 ' * sharded}torchrun --standalone --nproc-per-node {gpus}"


@stage("training", f"training/{CELL_PATH}", resources=_training)
def train(study: Study, **axes: str) -> dict[str, Any]:
    """A cell, trained."""
    cell = cell_of(axes)
    strategy = study.config["strategies"][cell.strategy]
    read = {
        name: samples(study, cell.language, name).file(SAMPLES) for name in samples_of(strategy)
    }
    teacher = teacher_of(strategy)
    objectives = {objective_file(phase["objective"]) for phase in strategy["phases"]}
    return {
        # What a job asks for changes nothing of what it makes.
        "settings": {key: value for key, value in strategy.items() if key != "resources"},
        "inputs": {
            "source": source(study, cell.source),
            "tokenizer": vocabulary(study, cell.source, cell.language, cell.vocabulary),
            "initialization": initialization(study, cell),
            "corpus": corpus(study, cell.language),
            **({"samples": read} if read else {}),
            **({"teacher": source(study, teacher)} if teacher else {}),
        },
        # A cell of other settings or code is moved there before this one is trained.
        "outputs": {"replaced": f"{study.results}/replaced"},
        "cell": vars(cell),
        "seed": [study.config["seed"], "training", cell.path],
        "code": sorted(objectives),
    }


def _exporting(study: Study, **axes: str) -> Resources:
    return Resources(study.config["sources"][axes["source"]]["resources"]["training_mb"], 30)


@stage("training", f"export/{CELL_PATH}", script="export", resources=_exporting)
def export_cell(study: Study, **axes: str) -> dict[str, Any]:
    """A cell as a plain folder."""
    cell = cell_of(axes)
    return {"settings": {}, "inputs": {"cell": training(study, cell)}}
