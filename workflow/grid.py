"""A study's config -> its cells -> their files and jobs; the only place that knows the path scheme.

Plain Python: the Snakefile is parsed again in every job, and a study may have ten thousand cells.
"""

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from lexigraft.auxiliary.files import BINARY, word_vector_files
from lexigraft.corpus.files import local_files
from lexigraft.evaluation.learned.checkpoint import state
from lexigraft.initialization.registry import read_roles
from lexigraft.report.items import ALIGNMENT, Item, read_items
from lexigraft.source.hub import is_folder
from workflow.checks import NO_INITIALIZER, SOURCE_VOCABULARY, prompted_as

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"  # no slash, no leading dot: a name is one folder
FIT = r"all-seeds|seed-\d+"  # a fitted initializer: one for all seeds, or one per seed
PROMPTS = "config/prompts"
AXES = ("source", "language", "vocabulary", "initializer", "strategy", "seed")


@dataclass(frozen=True)
class Cell:
    """One point of the grid; vocabulary `source` and initializer `none` make it a baseline."""

    source: str
    language: str
    vocabulary: str
    initializer: str
    strategy: str
    seed: int

    @property
    def path(self) -> str:
        """The cell's place below the folder of a stage."""
        return "/".join(str(value) for value in astuple(self)[:-1]) + f"/seed-{self.seed}"


class Study:
    """The cells, tasks and report items of one resolved config, and the job of each of their files.

    Parameters
    ----------
    config
        What `workflow.configuration.resolve` returned.
    """

    def __init__(self, config: dict[str, Any]):
        self.config = config
        self.name: str = config["study"]
        self.results: str = config["results"].rstrip("/")
        self.cells = list(dict.fromkeys(_cells(config["cells"])))

    # ---- places -------------------------------------------------------------------------------

    def package_folder(self, package: str) -> str:
        """Where a PyPI package is unpacked, version in the name."""
        version = self.config["packages"][package]["version"]
        return f"{self.config['packages_folder'].rstrip('/')}/{package}-{version}"

    def source_folder(self, source: str) -> str:
        """Where a source model's card lies, and the model too if a package brought it."""
        return f"{self.results}/source/{source}"

    def corpus_folder(self, language: str) -> str:
        """Where a language's texts lie."""
        return f"{self.results}/corpus/{language}"

    def vocabulary_folder(self, source: str, language: str, vocabulary: str) -> str:
        """The tokenizer's folder; an unchanged vocabulary is the source's own."""
        if vocabulary == SOURCE_VOCABULARY:
            return self.source_folder(source)
        return f"{self.results}/vocabulary/{source}/{language}/{vocabulary}"

    def auxiliary_folder(self, auxiliary: str, source: str, language: str, vocabulary: str) -> str:
        """Where the static vectors of a tokenizer's tokens lie."""
        return f"{self.results}/auxiliary/{source}/{language}/{vocabulary}/{auxiliary}"

    def initialization_folder(self, cell: Cell) -> str | None:
        """Where the cell's fitted initializer lies: one for all seeds unless it draws at random."""
        if cell.initializer == NO_INITIALIZER:
            return None
        drawn = self.config["initializers"][cell.initializer]["draws"]
        fit = f"seed-{cell.seed}" if drawn else "all-seeds"
        return (
            f"{self.results}/initialization/{cell.source}/{cell.language}/{cell.vocabulary}/"
            f"{cell.initializer}/{fit}"
        )

    def training_folder(self, cell: Cell) -> str:
        """Where a cell's changed tensors lie."""
        return f"{self.results}/training/{cell.path}"

    def evaluation_folder(self, cell: Cell, task: str, run: int) -> str:
        """Where one run of a task on a cell puts its record and predictions."""
        return f"{self.results}/evaluation/{cell.path}/{task}/run-{run}"

    def metric_folder(self, metric: str) -> str:
        """Where a learned metric's card lies, which says where its checkpoint is."""
        return f"{self.results}/metrics/{metric}"

    def learned_folder(self, cell: Cell, task: str, run: int) -> str:
        """Where learned metrics put their records of one run of a task on a cell."""
        return f"{self.evaluation_folder(cell, task, run)}/learned"

    def fragmentation_folder(self, source: str, language: str, vocabulary: str) -> str:
        """Where the record of a tokenizer lies, which needs no model."""
        return f"{self.results}/evaluation/{source}/{language}/{vocabulary}/fragmentation"

    def alignment_folder(self, fitted: str) -> str:
        """Where the alignment record of a fitted initializer lies, by that initializer's folder."""
        *axes, fit = fitted.removeprefix(f"{self.results}/initialization/").split("/")
        return f"{self.results}/evaluation/{'/'.join(axes)}/alignment/{fit}"

    @property
    def report_folder(self) -> str:
        """Where the study's tables, figures and pages lie."""
        return f"{self.results}/report/{self.name}"

    # ---- what a rule reads ---------------------------------------------------------------------

    def source_inputs(self, source: str) -> list[str]:
        """The package that bundles a source model, if one does."""
        package = self.config["sources"][source].get("package")
        return [f"{self.package_folder(package)}/card.json"] if package else []

    def groups(self) -> str:
        """Names of the languages that are groups of others, as the pattern of a wildcard."""
        entries = self.config["languages"].items()
        return "|".join(re.escape(name) for name, entry in entries if "group" in entry)

    def members(self, language: str) -> list[str]:
        """The languages of a group; none of a language."""
        return self.config["languages"][language].get("group", {}).get("members", [])

    def member_cards(self, language: str) -> list[str]:
        """What says that the corpora of a group's members are whole."""
        return [f"{self.corpus_folder(member)}/card.json" for member in self.members(language)]

    def vocabularies_of(self, kind: str) -> str:
        """Names of the vocabularies made in one way, as the pattern of a wildcard.

        `expand`; `train`, a tokenizer of the corpus's own; `take`, one of another model.
        """
        entries = self.config["vocabularies"].items()
        return "|".join(re.escape(name) for name, entry in entries if made_by(entry) == kind)

    def tokenizer_of(self, language: str, vocabulary: str) -> dict[str, str | None]:
        """Where a vocabulary that is taken from another model lies: `tokenizer` and `revision`."""
        entry = self.config["vocabularies"][vocabulary]
        if "plm" in entry:
            plm = self.config["languages"][language]["plms"][entry["plm"]]
            return {"tokenizer": plm["model"], "revision": plm.get("revision")}
        return {"tokenizer": entry["tokenizer"], "revision": entry.get("revision")}

    def tokenizer_inputs(self, wildcards: Mapping[str, str]) -> list[str]:
        """The file of a tokenizer that is taken from a local folder, once it is there."""
        place = self.tokenizer_of(wildcards["language"], wildcards["vocabulary"])["tokenizer"]
        assert place is not None
        return _present([f"{Path(place).expanduser()}/tokenizer.json"]) if is_folder(place) else []

    def corpus_inputs(self, language: str) -> list[str]:
        """Packages and local files that a language's texts come from."""
        settings = self.config["languages"][language]
        packages = (f"{self.package_folder(name)}/card.json" for name in corpus_packages(settings))
        return [*packages, *_present(local_files(settings))]

    def tokenizer_card(self, wildcards: Mapping[str, str]) -> str:
        """What says that a tokenizer is whole: its own card, or the source's if unchanged."""
        key = (wildcards[axis] for axis in AXES[:3])
        return f"{self.vocabulary_folder(*key)}/card.json"

    def auxiliaries_of(self, kind: str) -> str:
        """Names of the auxiliaries of one kind, as the pattern of a wildcard."""
        entries = self.config["auxiliary"].items()
        return "|".join(re.escape(name) for name, entry in entries if entry["kind"] == kind)

    def learned_initializers(self) -> str:
        """Those of the study that read the source's weights, as the pattern of a wildcard."""
        used = {cell.initializer for cell in self.cells} - {NO_INITIALIZER}
        methods = {name: self.config["initializers"][name]["method"] for name in used}
        learned = {"matrices", "model"}
        return "|".join(
            re.escape(name) for name in sorted(used) if learned & {*read_roles(methods[name])}
        )

    def auxiliary_folders(self, wildcards: Mapping[str, str]) -> dict[str, str]:
        """Role -> folder of the auxiliaries that an initializer reads.

        Those in the role `source` are of the source's own tokenizer, all others of the cell's.
        """
        source, language, vocabulary = (wildcards[axis] for axis in AXES[:3])
        names = self.config["initializers"][wildcards["initializer"]]["auxiliary"]
        return {
            role: self.auxiliary_folder(
                name, source, language, SOURCE_VOCABULARY if role == "source" else vocabulary
            )
            for role, name in names.items()
        }

    def auxiliary_cards(self, wildcards: Mapping[str, str]) -> list[str]:
        """What says that the auxiliaries of an initializer are whole."""
        return [f"{folder}/card.json" for folder in self.auxiliary_folders(wildcards).values()]

    def dictionaries(self, wildcards: Mapping[str, str]) -> list[str]:
        """Those that an initializer reads, if it does: of the cell's language, or of a group's."""
        if not self.config["initializers"][wildcards["initializer"]]["dictionary"]:
            return []
        language = wildcards["language"]
        entries = (self.config["languages"][name] for name in self.members(language) or [language])
        return [entry["dictionary"] for entry in entries if entry["dictionary"]]

    def dictionary_inputs(self, wildcards: Mapping[str, str]) -> list[str]:
        """The same, once they are there."""
        return _present(self.dictionaries(wildcards))

    def word_vectors(self, auxiliary: str, language: str) -> dict[str, str]:
        """The files that word vectors are read from, see `word_vector_files`."""
        settings, texts = self.config["auxiliary"][auxiliary], self.config["languages"][language]
        files = word_vector_files(auxiliary, settings, language, texts)
        return {kind: str(path) for kind, (_, path) in files.items()}

    def word_vectors_inputs(self, wildcards: Mapping[str, str]) -> list[str]:
        """The same, once they are there."""
        return _present(
            [*self.word_vectors(wildcards["auxiliary"], wildcards["language"]).values()]
        )

    def initialization_cards(self, wildcards: Mapping[str, str]) -> list[str]:
        """The fitted initializer of a cell, if it has one."""
        folder = self.initialization_folder(cell_of(wildcards))
        return [f"{folder}/card.json"] if folder else []

    # ---- what the report reads ----------------------------------------------------------------

    def records(self) -> list[str]:
        """Evaluation records of every cell, task and run of the study."""
        return [
            f"{self.evaluation_folder(cell, task, run)}/record.json"
            for task, wanted in self.config["run_tasks"].items()
            for cell in self.cells
            if _is_wanted(cell, wanted)
            for run in range(wanted["runs"])
        ]

    def learned_records(self) -> list[str]:
        """Records of learned metrics of every cell, task and run that is to be scored."""
        return [
            f"{self.learned_folder(cell, task, run)}/{metric}.json"
            for task, wanted in self.config["run_tasks"].items()
            for cell in self.cells
            if _is_wanted(cell, wanted)
            for run in range(wanted["runs"])
            for metric in wanted["learned_metrics"]
        ]

    def report_inputs(self) -> dict[str, list[str]]:
        """Folders and records that the report reads, by stage, in the order of the grid."""
        vocabularies = list(
            dict.fromkeys((cell.source, cell.language, cell.vocabulary) for cell in self.cells)
        )
        folders = (self.initialization_folder(cell) for cell in self.cells)
        fitted = list(dict.fromkeys(folder for folder in folders if folder))
        asked = {item.kind for item in read_items(self.config["report"]["items"])}
        return {
            "records": self.records(),
            "learned": self.learned_records(),
            "fragmentation": [
                f"{self.fragmentation_folder(*key)}/record.json" for key in vocabularies
            ],
            "training": [self.training_folder(cell) for cell in self.cells],
            "initialization": fitted,
            "alignment": [f"{self.alignment_folder(folder)}/record.json" for folder in fitted]
            if asked & set(ALIGNMENT)
            else [],
            "vocabulary": [
                self.vocabulary_folder(*key) for key in vocabularies if key[2] != SOURCE_VOCABULARY
            ],
        }

    def report_dependencies(self) -> list[str]:
        """Files beside the records that the report reads, each written last in its folder."""
        inputs = self.report_inputs()
        folders = [*inputs["training"], *inputs["initialization"], *inputs["vocabulary"]]
        cards = (f"{folder}/card.json" for folder in folders)
        return [*inputs["learned"], *inputs["fragmentation"], *inputs["alignment"], *cards]

    def sentence_encoder(self) -> dict[str, str] | None:
        """The encoder that compares texts in meaning: `{"hub", "revision"}` or `{"folder"}`."""
        encoder = self.config["alignment"]["encoder"]
        if encoder and "package" in encoder:
            return {"folder": f"{self.package_folder(encoder['package'])}/{encoder['folder']}"}
        return encoder

    def sentence_encoder_inputs(self) -> list[str]:
        """The package that holds the encoder, if one does."""
        package = (self.config["alignment"]["encoder"] or {}).get("package")
        return [f"{self.package_folder(package)}/card.json"] if package else []

    def report_fonts(self) -> list[str]:
        """What must be there before figures can show the scripts of the study."""
        fonts = self.config["report"]["fonts"]
        return [f"{self.package_folder(fonts['package'])}/card.json"] if fonts else []

    def report_items(self, kind: str) -> list[Item]:
        """The study's `tables` or `figures`."""
        items = read_items(self.config["report"]["items"])
        return [item for item in items if item.is_table == (kind == "tables")]

    # ---- what a job asks for ------------------------------------------------------------------

    def memory(self, stage: str, source: str, attempt: int) -> int:
        """Megabytes of an initialization, training or evaluation job; more after each failure."""
        return self.config["sources"][source]["resources"][f"{stage}_mb"] * attempt

    def minutes(self, stage: str, source: str, attempt: int) -> int:
        """Time limit of a training or evaluation job; more after each failure."""
        return self.config["sources"][source]["resources"][f"{stage}_minutes"] * attempt

    def scoring_memory(self, metric: str, attempt: int) -> int:
        """Megabytes of a learned metric's job; more after each failure."""
        return self.config["metrics"][metric]["resources"]["scoring_mb"] * attempt

    def scoring_minutes(self, metric: str, attempt: int) -> int:
        """Time limit of a learned metric's job; more after each failure."""
        return self.config["metrics"][metric]["resources"]["scoring_minutes"] * attempt

    def metric_state(self, metric: str) -> str:
        """What this machine has for a learned metric; it is prepared again when that grows."""
        settings, folder = self.config["metrics"][metric], self.metric_folder(metric)
        return state(settings, self.config["metrics_python"], folder)

    def word_vectors_memory(self, wildcards: Mapping[str, str], attempt: int) -> int:
        """Megabytes for reading word vectors: each .bin is loaded as a whole."""
        whole = [file for file in self.word_vectors_inputs(wildcards) if file.endswith(BINARY)]
        return (2000 + sum(Path(file).stat().st_size >> 20 for file in whole)) * attempt

    def plm(self, auxiliary: str, language: str) -> dict[str, Any]:
        """The model whose embeddings an auxiliary takes: `model` and `revision`."""
        return self.config["languages"][language]["plms"][
            self.config["auxiliary"][auxiliary]["plm"]
        ]

    def prompts(self, task: str) -> list[str]:
        """The files that a task's prompts are built from."""
        kind = prompted_as(self.config["tasks"][task])
        return [f"{PROMPTS}/{kind}.yaml", f"{PROMPTS}/names.yaml"] if kind else []

    def runs_alone(self, task: str) -> bool:
        """Whether other jobs on the machine would spoil what the task measures."""
        return self.config["tasks"][task]["kind"] == "speed"


def cell_of(wildcards: Mapping[str, str]) -> Cell:
    """The cell that a file's wildcards name."""
    source, language, vocabulary, initializer, strategy, seed = (wildcards[axis] for axis in AXES)
    return Cell(source, language, vocabulary, initializer, strategy, int(seed))


def made_by(vocabulary: Mapping[str, Any]) -> str:
    """Which rule makes a vocabulary, see `Study.vocabularies_of`."""
    if vocabulary["mode"] == "expand":
        return "expand"
    return "train" if "family" in vocabulary else "take"


def corpus_packages(language: Mapping[str, Any]) -> list[str]:
    """Packages that a language's texts come from."""
    specs = (language[key] for key in ("text", "parallel", "english") if language.get(key))
    return list(dict.fromkeys(spec["package"] for spec in specs if "package" in spec))


def _present(files: list[str]) -> list[str]:
    """Files that are there: a plan may come before its data, and a run is refused without."""
    return [file for file in files if Path(file).is_file()]


def _cells(blocks: list[dict[str, Any]]):
    for block in blocks:
        for source in block["sources"]:
            for language in block["languages"]:
                for vocabulary in block["vocabularies"]:
                    for initializer in block["initializers"]:
                        for strategy in block["strategies"]:
                            for seed in block["seeds"]:
                                yield Cell(
                                    source, language, vocabulary, initializer, strategy, seed
                                )


def _is_wanted(cell: Cell, wanted: Mapping[str, Any]) -> bool:
    """Whether a task is to be run on a cell: null in `wanted` lets all pass."""
    axes = (("seed", "seeds"), ("initializer", "initializers"), ("strategy", "strategies"))
    return all(wanted[key] is None or getattr(cell, axis) in wanted[key] for axis, key in axes)
