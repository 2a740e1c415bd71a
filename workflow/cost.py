"""What jobs cost, estimated before any has run: tokens x parameters / speed of the device.

For a model with P parameters, and a device with F FLOP/s and B bytes per second
(`lexigraft.machine.PEAKS`), the seconds on G GPUs are

    training      tokens x P x (4 + 2 if everything is trained + 2 if activations are recomputed)
                  / (TRAINING x F x G), where G is multiplied by EFFICIENCY if it is above 1
    scoring       tokens x 2 P / (SCORING x F)
    generation    scoring of the prompts; then for each batch and new token the maximum of
                  STEP_SECONDS and the time to read the weights, 2 P / (READING x B)
    loading       START_SECONDS, and 2 P bytes from disk

The tokens of a text are its sentences x epochs x CHARACTERS per sentence / characters per token,
unless a strategy or its phases set them (`tokens`). What a task computes is declared by its kind
(`lexigraft.evaluation.costs`). Time limits depend on the config alone, so that a job requests the
same limit on every run; for the command `cost`, values in the cards of sources, corpora and
tokenizers replace the assumptions. The model ignores extra heads, adapters of VocADT, the matrix
products of attention, the cache of generation, and vLLM. docs/status.md has the assumptions.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from lexigraft.evaluation.costs import QUESTION, TESTS, TaskSizes, TextSize, Work, generation
from lexigraft.machine import PEAKS, known_device, setting
from lexigraft.training.registry import objective
from lexigraft.training.settings import MONOLINGUAL, Phase, Strategy
from workflow.config.study import StudyConfig
from workflow.config.vocabularies import Expansion
from workflow.jobs import Job
from workflow.study import Study, once

Seconds = Mapping[str, float]  # kind of work -> seconds

DEVICE = "A100"  # the slower one of the devices most used to train such models
# Shares of peaks. Optimized code trains 7B models at 0.46 to 0.57 of an H100's FLOP/s, including
# recomputation (MosaicML, llm-foundry, scripts/train/benchmarking); micro-batches are smaller here.
TRAINING, SCORING, READING = 0.45, 0.55, 0.7
LEARNED = 0.05  # learned metrics compute in float32, without tensor cores
EFFICIENCY = 0.85  # of each of several GPUs
# Minimum time for one token of all sequences in a batch: kernels are launched one by one.
STEP_SECONDS = 0.025
START_SECONDS, DISK = 20.0, 1e9  # imports and opening; bytes per second

# Default sizes of texts: 30,000 sentences of the low-resource study are 0.01 GB.
SENTENCES, CHARACTERS = 30_000, 120
# Bytes per character in UTF-8, for scripts that do not take three.
_WIDTHS = {"Latn": 1} | dict.fromkeys(("Arab", "Armn", "Cyrl", "Grek", "Hebr"), 2)
# Characters per token by bytes per character, for a vocabulary built for English: it has subwords
# of the Latin script, letters of some scripts, and only bytes of the rest.
_SOURCE = {1: 2.5, 2: 1.0, 3: 0.45}
ENGLISH = 4.0
MOST = 4.5  # for the largest vocabularies built for a language
METRIC_TOKENS = 256  # of a prediction with its reference, in a learned metric

# Time limits on clusters: three times the estimate, at least 30 minutes; 60 without an estimate.
MARGIN, LEAST_MINUTES, UNKNOWN_MINUTES = 3, 30, 60

UNCERTAINTY = 2  # a job takes up to this many times its estimate

_TOKENIZERS = ("source", "language", "vocabulary")
CPU = "CPU"


class Text(NamedTuple):
    """A text's size: sentences, and characters and bytes per sentence."""

    sentences: float
    characters: float
    bytes: float


class CostModel:
    """Seconds of jobs of a study on a device; an unlisted device counts as `DEVICE`.

    With `jobs`, the values in their cards replace assumptions.
    """

    def __init__(self, study: Study, device: str, jobs: Iterable[Job] | None = None) -> None:
        self.study, self.device = study, device
        self.peak = PEAKS[known_device(device) or DEVICE]
        self._cards = {(job.rule, *sorted(job.wildcards.items())): job.card for job in jobs or ()}
        # Computed once for all jobs that share them, since a plan may have thousands of jobs.
        self.text, self.density = cache(self._text), cache(self._density)
        self._task = cache(self._task_seconds)
        self.card = cache(self._read_card)

    def knows(self, wildcards: Mapping[str, str]) -> bool:
        """Whether a job's number of parameters is known; if not, seconds are only relative."""
        source = wildcards.get("source")
        if source is None:  # a teacher answers samples
            samples: Any = self.study.languages[wildcards["language"]].samples
            source = samples[wildcards["samples"]].teacher
        return self._known_parameters(source) is not None

    def parameters(self, source: str) -> float:
        """Number of parameters of a source model; a billion if it is unknown."""
        return self._known_parameters(source) or 1e9

    def minutes(
        self, resources: Any, key: str, seconds: Callable[[], Seconds], runs: int = 1
    ) -> int:
        """The time limit of a job: `MARGIN` times its seconds, rounded up to ten minutes.

        The `key` of the `resources` may set the time of a run instead.
        """
        minutes: int | None = getattr(resources, key)
        if minutes or resources.billion_parameters is None:
            return runs * (minutes or UNKNOWN_MINUTES)
        return max(LEAST_MINUTES, 10 * math.ceil(MARGIN * sum(seconds().values()) / 600))

    def training(self, axes: Mapping[str, str], gpus: int = 1) -> Seconds:
        """A training, or only scoring of held-out text if the strategy has no phases."""
        source, language, vocabulary = (axes[key] for key in _TOKENIZERS)
        strategy = self.study.strategies[axes["strategy"]]
        members = self.study.members(language)
        parameters, text = self.parameters(source), self.text(language)
        density, flops = self.density(source, language, vocabulary), 0.0
        for phase in strategy.phases:
            first, share = next(iter(phase.data.items()))
            each = training_flops(phase, strategy.gradient_checkpointing, parameters)
            if teacher := phase.teacher(source):
                cost = objective(phase.objective).cost(phase)
                # A teacher with another vocabulary has its own number of tokens.
                tokens = self.density(teacher, language, "source") / density
                longer = tokens if cost.teacher_tokenizes else 1.0
                each += 2 * self.parameters(teacher) * longer * cost.teacher
            if first == MONOLINGUAL or first in self.study.languages:
                read = text if first == MONOLINGUAL else self.text(first)
                sentences = min(strategy.sentences or read.sentences, read.sentences)
                length = sentences * read.characters * density
            else:
                # Of samples and prompts; pairs are translated in both directions.
                entries = (self.study.languages[name].samples.get(first) for name in members)
                rows = sum(getattr(entry, "size", None) or SENTENCES for entry in entries if entry)
                length = rows * CHARACTERS * (density + 1 / ENGLISH)
            amount = phase if phase.has_own_amount else strategy
            visited = amount.tokens or (amount.epochs or 0.0) * length
            if amount.tokens_per_language:
                visited = amount.tokens_per_language * len(members)
            flops += visited * phase.share / share * each
        together = gpus if gpus == 1 else EFFICIENCY * gpus
        curve = strategy.curve
        each = text.characters * density + CHARACTERS / ENGLISH
        watched = (curve.points + 2) * curve.sentences * each
        scoring = self._seconds(parameters, Work("training", scored_tokens=watched))
        training = flops / (TRAINING * self.peak.flops * together) + scoring
        return {"loading": self._loading(source), "training": training}

    def evaluation(self, axes: Mapping[str, str], tasks: Iterable[str]) -> Seconds:
        """All runs of tasks on a cell, in one process."""
        source, language, vocabulary = (axes[key] for key in _TOKENIZERS)
        seconds = {"loading": self._loading(source)}
        for task in tasks:
            work, task_seconds = self._task(task, source, language, vocabulary)
            seconds[work] = seconds.get(work, 0.0) + task_seconds
        return seconds

    def answers(self, language: str, samples: str) -> Seconds:
        """The answers of a teacher to the prompts of other samples."""
        entries: dict[str, Any] = self.study.languages[language].samples
        entry = entries[samples]
        prompts = entries[entry.prompts].size or SENTENCES
        length = QUESTION * CHARACTERS * self.density(entry.teacher, language, "source")
        work = generation(prompts, length, entry.max_new_tokens)
        generated = self._seconds(self.parameters(entry.teacher), work)
        return {"loading": self._loading(entry.teacher), "generation": generated}

    def metric(self, name: str, tasks: Iterable[tuple[str, str]]) -> Seconds:
        """A learned metric on the predictions of all runs of each (task, language)."""
        billions = self.study.metrics[name].resources.billion_parameters or 1.0
        predictions = 0.0
        for task, language in tasks:
            tests = self._tests(task, language)
            drawn = min(getattr(self.study.task_settings(task), "samples", None) or tests, tests)
            predictions += drawn * self.study.run_tasks[task].runs
        flops = predictions * METRIC_TOKENS * 2e9 * billions
        return {"learned metrics": flops / (LEARNED * self.peak.flops), "loading": START_SECONDS}

    def of_job(self, job: Job) -> Seconds:
        """A job that runs a model; {} for others, and if the number of parameters is unknown."""
        description, axes = job.description, job.wildcards
        if job.rule == "train":
            return self.training(axes, max(1, job.gpus)) if self.knows(axes) else {}
        if tasks := description.get("tasks"):
            return self.evaluation(axes, tasks) if self.knows(axes) else {}
        if "metric" in axes and "cells" in description:
            languages = ((path.split("/")[1], runs) for path, runs in description["cells"])
            scored = [(task, language) for language, runs in languages for task in runs]
            return self.metric(axes["metric"], scored) if scored else {}
        if "teacher" in description.get("inputs", {}) and "samples" in axes:
            return self.answers(axes["language"], axes["samples"]) if self.knows(axes) else {}
        return {}

    def _task_seconds(
        self, task: str, source: str, language: str, vocabulary: str
    ) -> tuple[str, float]:
        """Kind of work and seconds of all runs of a task."""
        study, tested = self.study, self.study.tested_language(task, language)
        density = self.density(source, tested, vocabulary)
        heldout, english = self.text(tested, "heldout"), self.text(tested, "english")
        sizes = TaskSizes(
            runs=study.run_tasks[task].runs,
            languages=len(study.tests(task, language)) or 1,
            tests=self._tests(task, language),
            sentence=CHARACTERS * density,
            english_sentence=CHARACTERS / ENGLISH,
            heldout=TextSize(heldout.sentences, heldout.characters * density),
            english=TextSize(english.sentences, english.characters / ENGLISH),
        )
        work = study.task_kind(task).cost(study.task_settings(task), sizes)
        return work.name, self._seconds(self.parameters(source), work)

    def _tests(self, task: str, language: str) -> int:
        """The number of test examples of a task in each language."""
        corpus_tests = None
        if self.study.tasks[task].examples is None:
            corpus_tests = self.study.task_kind(task).corpus_tests
        tested = self.study.languages[self.study.tested_language(task, language)]
        return (corpus_tests and getattr(tested, corpus_tests.count)) or TESTS

    def _seconds(self, parameters: float, work: Work) -> float:
        step = max(STEP_SECONDS, 2 * parameters / (READING * self.peak.bandwidth))
        trained = 6 * parameters * work.trained_tokens / (TRAINING * self.peak.flops)
        scored = 2 * parameters * work.scored_tokens / (SCORING * self.peak.flops)
        return scored + work.decoding_steps * step + trained

    def _loading(self, source: str) -> float:
        return START_SECONDS + 2 * self.parameters(source) / DISK

    def _known_parameters(self, source: str) -> float | None:
        if parameters := self.card("prepare_source", source=source).get("parameters"):
            return float(parameters)
        billions = self.study.sources[source].resources.billion_parameters
        return billions and billions * 1e9

    def _text(self, language: str, part: str = "train") -> Text:
        """The size of a part of a corpus: `train`, `heldout` or `english`."""
        sizes = self.card("prepare_corpus", language=language).get("sizes", {}).get(part, {})
        if count := sizes.get("sentences"):
            return Text(count, sizes["characters"] / count, sizes["bytes"] / count)
        entries = [self.study.languages[name] for name in self.study.members(language)]
        width = fmean(_WIDTHS.get(entry.script, 3) for entry in entries)
        sizes_given = (entry.resources and entry.resources.characters for entry in entries)
        lengths = [characters or CHARACTERS for characters in sizes_given]
        characters = CHARACTERS if part == "english" else fmean(lengths)
        if part == "train":
            count = self._train_sentences(language, characters)
        else:
            count = sum(getattr(entry, f"{part}_sentences") for entry in entries)
        return Text(count, characters, characters * width)

    def _train_sentences(self, language: str, characters: float) -> float:
        """The smallest limit on the text; for a group without limits, the sum over its members."""
        entry = self.study.languages[language]
        limits = [entry.train_sentences, (entry.train_characters or 0) / characters]
        if not any(limits) and entry.group:
            names = self.study.members(language)
            return sum(self._train_sentences(name, characters) for name in names)
        return min(filter(None, limits), default=SENTENCES)

    def _density(self, source: str, language: str, vocabulary: str) -> float:
        """Tokens per character, which decrease with a vocabulary's tokens for the language."""
        text = self.text(language)
        each = _SOURCE[min(3, max(1, round(text.bytes / text.characters)))]
        entry = self.study.vocabularies.get(vocabulary)
        if entry is None or entry.mode == "prune":
            return 1 / each
        card = self.card(
            "build_vocabulary", source=source, language=language, vocabulary=vocabulary
        )
        if after := card.get("train_fertility_after"):
            return float(after / card["train_fertility_before"]) / each
        size = entry.tokens_of_language
        made = 1 + 1.2 * math.log10(size / 100) if size else MOST
        return 1 / max(each, min(made, MOST))

    def _read_card(self, rule: str, **wildcards: str) -> dict[str, Any]:
        """The card of a job; empty without one."""
        with suppress(KeyError, OSError, ValueError):
            card = self._cards[rule, *sorted(wildcards.items())]
            return dict(json.loads(Path(card).read_text(encoding="utf-8")))
        return {}


@once
def cost_model(study: Study) -> CostModel:
    """The model for time limits, which depend on the config alone, not on finished jobs."""
    return CostModel(study, chosen_device(study.settings) or DEVICE)


def training_flops(phase: Phase, recomputes: bool, parameters: float) -> float:
    """FLOPs per training token in a phase of a strategy."""
    each = parameters * (4 + 2 * ("all" in phase.trainable) + 2 * recomputes)
    return each * objective(phase.objective).cost(phase).model


def chosen_device(settings: StudyConfig) -> str | None:
    """The device set in the environment or in the study's `machine`; None if neither is set."""
    return setting("device") or settings.machine.device


@dataclass
class JobCosts:
    """Sums over jobs.

    `job_hours` and `gpu_hours` are estimates, of `estimated` jobs, and `work` the GPU-hours by kind
    of work; `most_job_hours` and `most_gpu_hours` are the time limits of all other jobs.
    `gigabytes` are those of trained cells, without `unsized` ones whose source is not prepared.
    """

    jobs: int = 0
    estimated: int = 0
    job_hours: float = 0.0
    gpu_hours: float = 0.0
    most_job_hours: float = 0.0
    most_gpu_hours: float = 0.0
    gigabytes: float = 0.0
    unsized: int = 0
    work: Counter[str] = field(default_factory=Counter)

    def __add__(self, cost: "JobCosts") -> "JobCosts":
        return JobCosts(**{name: value + vars(cost)[name] for name, value in vars(self).items()})


def costs_by_rule(model: CostModel, jobs: Iterable[Job]) -> dict[str, JobCosts]:
    """Rule -> the sums over its jobs, in the order of the first job of each."""
    costs: dict[str, JobCosts] = {}
    for job in jobs:
        costs[job.rule] = costs.get(job.rule, JobCosts()) + cost_of(model, job)
    return costs


def cost_of(model: CostModel, job: Job) -> JobCosts:
    """The cost of one job."""
    gpus = 0 if model.device == CPU else job.gpus
    megabytes = cell_megabytes(model, job) if job.rule == "train" else 0.0
    cost = JobCosts(jobs=1, gigabytes=(megabytes or 0.0) / 1000, unsized=int(megabytes is None))
    if seconds := model.of_job(job):
        cost.estimated, cost.job_hours = 1, sum(seconds.values()) / 3600
        cost.gpu_hours = gpus * cost.job_hours
        cost.work = Counter({kind: gpus * n / 3600 for kind, n in seconds.items() if gpus and n})
    else:
        cost.most_job_hours = job.minutes / 60
        cost.most_gpu_hours = gpus * cost.most_job_hours
    return cost


def cost_text(title: str, costs: Mapping[str, JobCosts], device: str) -> str:
    """The costs by rule, for a terminal; `device` is the one for which they were estimated."""
    total = sum(costs.values(), JobCosts())
    if not total.jobs:
        return f"{title}\n\nNothing to do."
    rows = [("", "jobs", "GPU-hours", "job-hours", "GB")]
    for rule, cost in (*costs.items(), ("all", total)):
        size = "?" if cost.unsized and not cost.gigabytes else _number(cost.gigabytes)
        gpu_hours = _sum(cost.gpu_hours, cost.most_gpu_hours)
        rows.append(
            (rule, str(cost.jobs), gpu_hours, _sum(cost.job_hours, cost.most_job_hours), size)
        )
    notes = []
    if total.estimated:
        notes.append(
            f"≈: {total.estimated} jobs are estimated for {device} (set LEXIGRAFT_DEVICE for "
            f"another device). They may take up to {UNCERTAINTY} times as long: at most "
            f"{_number(UNCERTAINTY * total.gpu_hours)} GPU-hours."
        )
    if total.work:
        parts = ", ".join(f"{kind} {_number(hours)}" for kind, hours in total.work.most_common())
        notes.append(f"GPU-hours by work: {parts}.")
    if total.most_job_hours:
        notes.append(
            f"≤: {total.jobs - total.estimated} jobs count with the time limit that they request, "
            "if any; most take far less."
        )
    if total.unsized:
        notes.append(
            f"GB: without {total.unsized} cells whose source model is not prepared; run "
            "`snakemake --until prepare_source` to prepare it."
        )
    return "\n".join([title, "", *aligned(rows), "", *notes])


def aligned(rows: Sequence[Sequence[str]], numbers: bool = True) -> list[str]:
    """The rows of a table as lines of text; `numbers` are right-aligned, from the second column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = (">" if numbers and column else "<" for column in range(len(widths)))
    form = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [form.format(*row).rstrip() for row in rows]


def _sum(estimated: float, most: float) -> str:
    """Hours, with a mark; an upper bound if some jobs only have a time limit."""
    return ("≤ " if most else "≈ " if estimated else "") + _number(estimated + most)


def _number(value: float) -> str:
    if not value:
        return "·"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def cell_megabytes(model: CostModel, job: Job) -> float | None:
    """Megabytes of a cell's changed tensors; None before its source model is prepared.

    A cell stores its changed tensors in the precision of its source model. LoRA's factors, about a
    hundredth of the parameters, are ignored.
    """
    study, axes = model.study, job.wildcards
    card = model.card("prepare_source", source=axes["source"])
    if "parameters" not in card:
        return None
    strategy = study.strategies[axes["strategy"]]
    checkpoints = strategy.checkpoints if strategy.phases else 1
    rows = new_rows = None
    if entry := study.vocabularies.get(axes["vocabulary"]):
        added = entry.tokens_of_language or 0
        # In a vocabulary that replaces the source's, nearly all rows are new.
        rows = new_rows = added or card["rows"]
        if entry.mode in ("expand", "prune"):
            rows, new_rows = card["rows"], added
            if isinstance(entry, Expansion) and not entry.prune:
                rows += added
    files = card["files"] | card.get("model_files", {})
    weights = sum(file["bytes"] for name, file in files.items() if name.endswith(".safetensors"))
    changed = changed_parameters(card, strategy, rows, new_rows)
    return changed * (weights / card["parameters"]) * checkpoints / 1e6


def changed_parameters(
    card: Mapping[str, Any], strategy: Strategy, rows: int | None, new_rows: int | None
) -> float:
    """The number of parameters that a cell stores.

    `card` is the source's: `parameters`, `layers`, `hidden_size`, `rows` and `tied`. `rows` is the
    number of rows of the new matrices, of which `new_rows` are not the source's; both are None for
    the source's own vocabulary.
    """
    matrices = 1 if card["tied"] else 2
    old = matrices * card["rows"] * card["hidden_size"]
    new = matrices * (rows or card["rows"]) * card["hidden_size"]
    if not strategy.phases:
        return matrices * (new_rows or 0) * card["hidden_size"]
    names = {part for phase in strategy.phases for part in phase.trainable}
    layers = {number % card["layers"] for phase in strategy.phases for number in phase.layers}
    if "all" in names:
        return card["parameters"] - old + new
    # A trained cell stores matrices with new rows completely.
    whole = rows is not None or names & {"embeddings", "head", "new-rows", "outside-layers"}
    return (new if whole else 0) + len(layers) * (card["parameters"] - old) / card["layers"]
