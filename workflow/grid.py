"""A study's config -> its cells -> their files and jobs.

Plain Python: the Snakefile is parsed again in every job, and a study may have ten thousand cells.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.auxiliary.files import BINARY
from lexigraft.evaluation.learned.checkpoint import state
from lexigraft.report.items import Item, read_items, records_read
from workflow.cells import is_wanted
from workflow.checks import SOURCE_VOCABULARY, prompted_as
from workflow.counted_tests import counted_tests
from workflow.places import PROMPTS
from workflow.rule_inputs import RuleInputs
from workflow.tested import checkpoints_of


class Study(RuleInputs):
    """The cells, tasks and report items of one resolved config, and the job of each of their files.

    Parameters
    ----------
    config
        What `workflow.configuration.resolve` returned.
    """

    # ---- what the report reads ----------------------------------------------------------------

    def records(self) -> list[str]:
        """Evaluation records of every cell, task and run of the study."""
        return [
            f"{self.evaluation_folder(cell, task, run)}/record.json"
            for task, wanted in self.config["run_tasks"].items()
            for cell in self.cells
            if is_wanted(cell, wanted)
            for run in range(wanted["runs"])
        ]

    def checkpoint_records(self) -> list[str]:
        """Records of every task that is run on the checkpoints of cells, these cells left out."""
        return [
            f"{self.evaluation_folder(cell, task, run)}/checkpoint-{number}/record.json"
            for task, wanted in self.config["run_tasks"].items()
            for cell in self.cells
            if is_wanted(cell, wanted)
            for number in checkpoints_of(self.config, task, cell.strategy)
            for run in range(wanted["runs"])
        ]

    def learned_records(self) -> list[str]:
        """Records of learned metrics of every cell, task and run that is to be scored."""
        return [
            f"{self.learned_folder(cell, task, run)}/{metric}.json"
            for task, wanted in self.config["run_tasks"].items()
            for cell in self.cells
            if is_wanted(cell, wanted)
            for run in range(wanted["runs"])
            for metric in wanted["learned_metrics"]
        ]

    def tokenizer_records(self) -> list[str]:
        """Records of the tokenizers that are compared without a model, by language."""
        wanted = self.config["fragmentation"]
        return [
            f"{self.tokenizer_folder(tokenizer, language)}/record.json"
            for language in wanted["languages"]
            for tokenizer in wanted["tokenizers"]
        ]

    def corpus_cards(self) -> list[str]:
        """Cards of the texts of every language that cells or tokenizers read, of groups' members
        too."""
        languages = [cell.language for cell in self.cells]
        every = dict.fromkeys([*languages, *self.config["fragmentation"]["languages"]])
        single = dict.fromkeys(
            name for language in every for name in (self.members(language) or [language])
        )
        return [f"{self.corpus_folder(language)}/card.json" for language in single]

    def contamination_records(self) -> list[str]:
        """Records of what of each task's tests is in the text that cells are trained on."""
        return [
            f"{self.contamination_folder(language, task)}/record.json"
            for language, task in counted_tests(self)
        ]

    def report_inputs(self) -> dict[str, list[str]]:
        """Folders and records that the report reads, by stage, in the order of the grid."""
        vocabularies = list(
            dict.fromkeys((cell.source, cell.language, cell.vocabulary) for cell in self.cells)
        )
        folders = (self.initialization_folder(cell) for cell in self.cells)
        fitted = list(dict.fromkeys(folder for folder in folders if folder))
        return {
            "records": self.records(),
            "learned": self.learned_records(),
            "checkpoints": self.checkpoint_records(),
            "fragmentation": [
                f"{self.fragmentation_folder(*key)}/record.json" for key in vocabularies
            ],
            "tokenizers": self.tokenizer_records(),
            "corpora": self.corpus_cards(),
            "contamination": self.contamination_records(),
            "training": [self.training_folder(cell) for cell in self.cells],
            "initialization": fitted,
            "alignment": [f"{self.alignment_folder(folder)}/record.json" for folder in fitted]
            if self.shows_alignment()
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
        records = ("learned", "checkpoints", "tokenizers", "fragmentation", "alignment")
        texts = ("corpora", "contamination")
        return [*(path for kind in (*records, *texts) for path in inputs[kind]), *cards]

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

    def shows_alignment(self) -> bool:
        """Whether the report has an item for which fitted initializers are measured."""
        return "alignment" in records_read(read_items(self.config["report"]["items"]))

    def report_fonts(self) -> list[str]:
        """What must be there before figures can show the scripts of the study."""
        fonts = self.config["report"]["fonts"]
        return [f"{self.package_folder(fonts['package'])}/card.json"] if fonts else []

    def report_items(self, group: str) -> list[Item]:
        """The study's `pages`, `tables` or `figures`."""
        items = read_items(self.config["report"]["items"])
        return [item for item in items if item.group == group]

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
