"""What each rule of a study reads.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.auxiliary.files import word_vector_files
from lexigraft.corpus.local_files import local_files, local_samples_files
from lexigraft.initialization.registry import read_roles
from lexigraft.source.hub import is_folder
from workflow.asked_tasks import asked_parts, asked_settings
from workflow.benchmarks import benchmarks_of
from workflow.cells import AXES, cell_of
from workflow.checks import NO_INITIALIZER, SOURCE_VOCABULARY
from workflow.counted_tests import inputs_of
from workflow.encoder_tasks import TRAIN, example_parts, example_settings
from workflow.patterns import any_of
from workflow.places import Places
from workflow.tested import TEXTS, tested_language


class RuleInputs(Places):
    """The inputs of rules, by what their wildcards name."""

    def source_inputs(self, source: str) -> list[str]:
        """The package that bundles a source model, if one does."""
        package = self.config["sources"][source].get("package")
        return [f"{self.package_folder(package)}/card.json"] if package else []

    def groups(self) -> str:
        """Names of the languages that are groups of others, as the pattern of a wildcard."""
        entries = self.config["languages"].items()
        return any_of(name for name, entry in entries if "group" in entry)

    def single_languages(self) -> str:
        """Names of the languages that are no groups, as the pattern of a wildcard."""
        entries = self.config["languages"].items()
        return any_of(name for name, entry in entries if "group" not in entry)

    def members(self, language: str) -> list[str]:
        """The languages of a group; none of a language."""
        return self.config["languages"][language].get("group", {}).get("members", [])

    def tested_texts(self, wildcards: Mapping[str, str]) -> list[str]:
        """The texts that a task may test a cell on."""
        language = tested_language(self.config, wildcards["task"], wildcards["language"])
        return [f"{self.corpus_folder(language)}/{name}" for name in TEXTS]

    def member_cards(self, language: str) -> list[str]:
        """What says that the corpora of a group's members are whole."""
        return [f"{self.corpus_folder(member)}/card.json" for member in self.members(language)]

    def samples_members(self, language: str, samples: str) -> list[str]:
        """The languages of a group that have such samples."""
        languages = self.config["languages"]
        return [name for name in self.members(language) if samples in languages[name]["samples"]]

    def samples_inputs(self, wildcards: Mapping[str, str]) -> list[str]:
        """Packages and local files that an entry of a language's samples comes from."""
        settings = self.config["languages"][wildcards["language"]]["samples"][wildcards["samples"]]
        packages = (f"{self.package_folder(name)}/card.json" for name in samples_packages(settings))
        return [*packages, *present(local_samples_files(settings))]

    def member_samples(self, wildcards: Mapping[str, str]) -> list[str]:
        """What says that the samples and the corpora of a group's members are whole."""
        language, name = wildcards["language"], wildcards["samples"]
        members = self.samples_members(language, name)
        folders = [self.samples_folder(member, name) for member in members]
        return [*(f"{folder}/card.json" for folder in folders), *self.member_cards(language)]

    def training_samples(self, wildcards: Mapping[str, str]) -> list[str]:
        """The samples that a cell is trained on, if it is."""
        return list(self.samples_files(cell_of(wildcards)).values())

    def examples_inputs(self, wildcards: Mapping[str, str]) -> list[str]:
        """The local file that one part of a task's examples comes from, once it is there."""
        settings = example_settings(self.config, wildcards["task"], wildcards["part"])
        return present(local_samples_files(settings))

    def asked_inputs(self, wildcards: Mapping[str, str]) -> list[str]:
        """The same of one part of what a task asks."""
        settings = asked_settings(self.config, wildcards["task"], wildcards["part"])
        return present(local_samples_files(settings))

    def examples_cards(self, wildcards: Mapping[str, str]) -> list[str]:
        """What says that the examples of a task are whole that a cell is to learn from and do."""
        task = wildcards["task"]
        parts = example_parts(self.config, task, wildcards["language"]).values()
        wanted = dict.fromkeys((TRAIN, *parts)) if parts else {}
        asked = asked_parts(self.config, task, wildcards["language"]).values()
        wanted |= dict.fromkeys(part for tests in asked for part in tests.values())
        return [f"{self.examples_folder(task, part)}/card.json" for part in wanted]

    def benchmark_cards(self, wildcards: Mapping[str, str]) -> list[str]:
        """What says that the benchmarks are prepared that a task asks of a cell."""
        found = benchmarks_of(self.config, wildcards["task"], wildcards["language"])
        return [f"{self.benchmark_folder(name)}/card.json" for name in found.values()]

    def counted_inputs(self, wildcards: Mapping[str, str]) -> list[str]:
        """The training text that a task's tests are looked for in, and the tests."""
        return inputs_of(self, wildcards["language"], wildcards["task"])

    def vocabularies_of(self, kind: str) -> str:
        """Names of the vocabularies made in one way, as the pattern of a wildcard.

        `expand`; `train`, a tokenizer of the corpus's own; `take`, one of another model.
        """
        entries = self.config["vocabularies"].items()
        return any_of(name for name, entry in entries if made_by(entry) == kind)

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
        return present([f"{Path(place).expanduser()}/tokenizer.json"]) if is_folder(place) else []

    def measured_inputs(self, tokenizer: str) -> list[str]:
        """The package, or the file in a local folder, that a tokenizer of the registry is in."""
        entry = self.config["tokenizers"][tokenizer]
        if "package" in entry:
            return [f"{self.package_folder(entry['package'])}/card.json"]
        folder = entry.get("folder")
        return present([f"{Path(folder).expanduser()}/tokenizer.json"]) if folder else []

    def corpus_inputs(self, language: str) -> list[str]:
        """Packages and local files that a language's texts come from."""
        settings = self.config["languages"][language]
        packages = (f"{self.package_folder(name)}/card.json" for name in corpus_packages(settings))
        return [*packages, *present(local_files(settings))]

    def tokenizer_card(self, wildcards: Mapping[str, str]) -> str:
        """What says that a tokenizer is whole: its own card, or the source's if unchanged."""
        key = (wildcards[axis] for axis in AXES[:3])
        return f"{self.vocabulary_folder(*key)}/card.json"

    def auxiliaries_of(self, kind: str) -> str:
        """Names of the auxiliaries of one kind, as the pattern of a wildcard."""
        entries = self.config["auxiliary"].items()
        return any_of(name for name, entry in entries if entry["kind"] == kind)

    def learned_initializers(self) -> str:
        """Those of the study that read the source's weights, as the pattern of a wildcard."""
        used = {cell.initializer for cell in self.cells} - {NO_INITIALIZER}
        methods = {name: self.config["initializers"][name]["method"] for name in used}
        learned = {"matrices", "model"}
        return any_of(name for name in sorted(used) if learned & {*read_roles(methods[name])})

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
        return present(self.dictionaries(wildcards))

    def word_vectors(self, auxiliary: str, language: str) -> dict[str, str]:
        """The files that word vectors are read from, see `word_vector_files`."""
        settings, texts = self.config["auxiliary"][auxiliary], self.config["languages"][language]
        files = word_vector_files(auxiliary, settings, language, texts)
        return {kind: str(path) for kind, (_, path) in files.items()}

    def word_vectors_inputs(self, wildcards: Mapping[str, str]) -> list[str]:
        """The same, once they are there."""
        return present([*self.word_vectors(wildcards["auxiliary"], wildcards["language"]).values()])

    def initialization_cards(self, wildcards: Mapping[str, str]) -> list[str]:
        """The fitted initializer of a cell, if it has one."""
        folder = self.initialization_folder(cell_of(wildcards))
        return [f"{folder}/card.json"] if folder else []


def made_by(vocabulary: Mapping[str, Any]) -> str:
    """Which rule makes a vocabulary, see `Study.vocabularies_of`."""
    if vocabulary["mode"] == "expand":
        return "expand"
    return "train" if "family" in vocabulary else "take"


def corpus_packages(language: Mapping[str, Any]) -> list[str]:
    """Packages that a language's texts come from."""
    specs = (language[key] for key in ("text", "parallel", "english") if language.get(key))
    return list(dict.fromkeys(spec["package"] for spec in specs if "package" in spec))


def samples_packages(samples: Mapping[str, Any]) -> list[str]:
    """The package that an entry of samples comes from, if one has it."""
    spec = samples.get("text") or {}
    return [spec["package"]] if "package" in spec else []


def present(files: list[str]) -> list[str]:
    """Files that are there: a plan may come before its data, and a run is refused without."""
    return [file for file in files if Path(file).is_file()]
