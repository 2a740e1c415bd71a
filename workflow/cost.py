"""The cost model: estimates the time of jobs on a device before any has run.

For a model with P parameters, and a device with F FLOP/s and B bytes per second
(`lexigraft.machine.PEAKS`), the seconds on G GPUs are

    training      tokens x P x (4 + 2 if everything is trained + 2 if activations are recomputed)
                  / (TRAINING x F x G), where G is multiplied by EFFICIENCY if it is above 1
    scoring       tokens x 2 P / (SCORING x F)
    generation    scoring of the prompts; then for each batch and new token the maximum of
                  STEP_SECONDS and the time to read the weights, 2 P / (READING x B)
    loading       START_SECONDS, and 2 P bytes from disk

The tokens of a text are its sentences x epochs x CHARACTERS per sentence / characters per token,
unless a strategy or its phases set them (`tokens`); the constants below are the assumptions about
texts. Without `reads_cards`, an estimate depends on the config alone, so that time limits do not
depend on the files on disk; with it, values in the cards of sources, corpora and tokenizers replace
the assumptions. The model ignores extra heads, adapters of VocADT, the matrix products of
attention, the cache of generation, and vLLM. docs/status.md has the table of assumptions.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from lexigraft.evaluation.task_kinds import task_kind
from lexigraft.machine import PEAKS, known_device, setting
from lexigraft.training.settings import phase_teacher
from workflow.config.task_data import benchmarks_of, example_parts, own_test_codes, tested_language
from workflow.config.training_data import members

Seconds = Mapping[str, float]  # kind of work -> seconds

DEVICE = "A100"  # the slower one of the devices most used to train such models
# Shares of peaks. Optimized code trains 7B models at 0.46 to 0.57 of an H100's FLOP/s, including
# recomputation (MosaicML, llm-foundry, scripts/train/benchmarking); micro-batches are smaller here.
TRAINING, SCORING, READING = 0.45, 0.55, 0.7
LEARNED = 0.05  # learned metrics compute in float32, without tensor cores
EFFICIENCY = 0.85  # of each of several GPUs
# Minimum time for one token of all sequences in a batch: kernels are launched one by one.
STEP_SECONDS = 0.025
BATCH_PROMPTS, BATCH_TOKENS = 64, 2**16  # maximum of a generation batch
START_SECONDS, DISK = 20.0, 1e9  # imports and opening; bytes per second

# Default sizes of texts: 30,000 sentences of the low-resource study are 0.01 GB.
SENTENCES, CHARACTERS, TESTS = 30_000, 120, 1_000
# Bytes per character in UTF-8, for scripts that do not take three.
_WIDTHS = {"Latn": 1} | dict.fromkeys(("Arab", "Armn", "Cyrl", "Grek", "Hebr"), 2)
# Characters per token by bytes per character, for a vocabulary built for English: it has subwords
# of the Latin script, letters of some scripts, and only bytes of the rest.
_SOURCE = {1: 2.5, 2: 1.0, 3: 0.45}
ENGLISH = 4.0
MOST = 4.5  # for the largest vocabularies built for a language
# Sentences per article, per context, per question with its answers; training examples.
ARTICLE, CONTEXT, QUESTION = 20, 6, 2
EXAMPLES = {"classification": 392_702, "tagging": 20_000, "extractive_qa": 87_599}
CHOICES, CHOICE_TESTS = 3, 2_000
METRIC_TOKENS = 256

# Time limits on clusters: three times the estimate, at least 30 minutes; 60 without an estimate.
MARGIN, LEAST_MINUTES, UNKNOWN_MINUTES = 3, 30, 60

_TOKENIZERS = ("source", "language", "vocabulary")


class Text(NamedTuple):
    """A text's size: sentences, and characters and bytes per sentence."""

    sentences: float
    characters: float
    bytes: float


class CostModel:
    """Seconds of a study's jobs on a device; an unlisted device counts as `DEVICE`.

    `study` is a `workflow.stages.study.Study`, whose module imports this one.
    """

    def __init__(self, study: Any, device: str, *, reads_cards: bool = False):
        self.study, self.config, self.device = study, study.config, device
        self.reads_cards = reads_cards
        self.peak = PEAKS[known_device(device) or DEVICE]
        # Computed once for all jobs that share them, since a plan may have thousands of jobs.
        self.text, self.density = cache(self._text), cache(self._density)
        self._task = cache(self._run)

    def knows(self, wildcards: Mapping[str, str]) -> bool:
        """Whether a job's number of parameters is known; if not, seconds are only relative."""
        source = wildcards.get("source")
        if source is None:  # a teacher answers samples
            samples = self.config["languages"][wildcards["language"]]["samples"]
            source = samples[wildcards["samples"]]["teacher"]
        return self._known_parameters(source) is not None

    def parameters(self, source: str) -> float:
        """Number of parameters of a source model; a billion if it is unknown."""
        return self._known_parameters(source) or 1e9

    def minutes(
        self,
        resources: Mapping[str, Any],
        key: str,
        seconds: Callable[[], Seconds],
        runs: int = 1,
    ) -> int:
        """The time limit of a job.

        `MARGIN` times its seconds, rounded up to ten minutes, unless the `key` of the `resources`
        gives the time of a run, or the number of parameters is unknown.
        """
        if key in resources or "billion_parameters" not in resources:
            given: int = resources.get(key, UNKNOWN_MINUTES)
            return runs * given
        return max(LEAST_MINUTES, 10 * math.ceil(MARGIN * sum(seconds().values()) / 600))

    # ---- jobs ------------------------------------------------------------------------------------

    def training(self, axes: Mapping[str, str], gpus: int = 1) -> Seconds:
        """A training, or only scoring of held-out text if the strategy has no phases."""
        source, language, vocabulary = (axes[key] for key in _TOKENIZERS)
        strategy = self.config["strategies"][axes["strategy"]]
        parameters, text = self.parameters(source), self.text(language)
        density, flops = self.density(source, language, vocabulary), 0.0
        for phase in strategy["phases"]:
            names = phase.get("data", "monolingual")
            shares = {names: 1.0} if isinstance(names, str) else names
            first, share = next(iter(shares.items()))
            each = training_flops(phase, strategy["gradient_checkpointing"], parameters)
            if teacher := phase_teacher(phase, source):
                longer = self._longer(phase, teacher, language, density)
                each += 2 * self.parameters(teacher) * longer * _depth(phase)
            if first == "monolingual":
                sentences = min(strategy["sentences"] or text.sentences, text.sentences)
                length = sentences * text.characters * density
            else:
                length = self._sample_tokens(language, first, density)
            amount = phase if "share" not in phase else strategy
            visited = self._visited(amount, language, length) * phase.get("share", 1.0)
            flops += visited / share * each
        together = gpus if gpus == 1 else EFFICIENCY * gpus
        curve = strategy["curve"]
        each = text.characters * density + CHARACTERS / ENGLISH
        watched = (curve["points"] + 2) * curve["sentences"] * each
        return {
            "loading": self._loading(source),
            "training": flops / (TRAINING * self.peak.flops * together)
            + self._scored(parameters, watched),
        }

    def evaluation(self, axes: Mapping[str, str], tasks: Iterable[str]) -> Seconds:
        """All runs of tasks on a cell, in one process."""
        source, language, vocabulary = (axes[key] for key in _TOKENIZERS)
        found = {"loading": self._loading(source)}
        for task in tasks:
            work, seconds = self._task(task, source, language, vocabulary)
            found[work] = found.get(work, 0.0) + seconds
        return found

    def answers(self, language: str, samples: str) -> Seconds:
        """The answers of a teacher to the prompts of other samples."""
        entries = self.config["languages"][language]["samples"]
        teacher, new = entries[samples]["teacher"], entries[samples]["max_new_tokens"]
        prompts = entries[entries[samples]["prompts"]].get("questions") or SENTENCES
        length = QUESTION * CHARACTERS * self.density(teacher, language, "source")
        generated = self._generated(self.parameters(teacher), prompts, length, new)
        return {"loading": self._loading(teacher), "generation": generated}

    def metric(self, name: str, tasks: Iterable[tuple[str, str]]) -> Seconds:
        """A learned metric on the predictions of all runs of each (task, language)."""
        billions = self.config["metrics"][name]["resources"].get("billion_parameters", 1.0)
        predictions = 0.0
        for task, language in tasks:
            _, drawn, runs = self._drawn(task, language, self._settings(task))
            predictions += drawn * runs
        flops = predictions * METRIC_TOKENS * 2e9 * billions
        return {"learned metrics": flops / (LEARNED * self.peak.flops), "loading": START_SECONDS}

    # ---- tasks -----------------------------------------------------------------------------------

    def _run(self, task: str, source: str, language: str, vocabulary: str) -> tuple[str, float]:
        """Kind of work and seconds of all runs of a task."""
        settings = self._settings(task)
        kind, tested = settings["kind"], tested_language(self.config, task, language)
        parameters = self.parameters(source)
        density = self.density(source, tested, vocabulary)
        own, english = CHARACTERS * density, CHARACTERS / ENGLISH
        tests, drawn, runs = self._drawn(task, language, settings)
        blocks = settings.get("shots", 0) + 1
        if kind == "perplexity":
            length = 0.0
            for part, each in (("heldout", density), ("english", 1 / ENGLISH)):
                text, asked = self.text(tested, part), settings[f"{part}_sentences"]
                length += min(asked or text.sentences, text.sentences) * text.characters * each
            return kind, self._scored(parameters, runs * length)
        if kind == "multiple_choice":
            languages = len(benchmarks_of(self.config, task, language)) or 1
            asked = runs * languages * (settings["samples"] or CHOICE_TESTS)
            return "multiple choice", self._scored(
                parameters, asked * CHOICES * blocks * QUESTION * own
            )
        if kind in EXAMPLES:
            languages = len(example_parts(self.config, task, language)) or 1
            length = settings["length"] / 2
            learned = settings["epochs"] * (settings["train_examples"] or EXAMPLES[kind]) * length
            asked = languages * (settings["test_examples"] or TESTS) * length
            trained = 6 * parameters * learned / (TRAINING * self.peak.flops)
            return "fine-tuning", runs * (trained + self._scored(parameters, asked))
        if kind == "greedy_agreement":
            read = settings["sentences"] or self.text(tested, "english").sentences
            new = settings["max_new_tokens"]
            return "generation", self._generated(parameters, read, settings["prompt_tokens"], new)
        lengths = {
            "translation": blocks * (english + own) + 50,
            "summarization": blocks * ARTICLE * own,
            "question_answering": blocks * (CONTEXT + QUESTION) * own,
        }
        length = lengths[settings.get("prompts_from", kind)]
        length = min(length, settings.get("max_prompt_tokens", length))
        if kind == "speed":
            prompts, timed = settings["prompts"], settings["repeats"]
            batches = sum(
                timed * math.ceil(prompts / size) + settings["warmup"]
                for size in settings["batch_sizes"]
            )
            read = len(settings["batch_sizes"]) * timed * prompts * length
            steps = batches * settings["new_tokens"]
            each = steps * self._step(parameters) + self._scored(parameters, read)
            return kind, runs * each
        # Runs share the generated texts of common prompts.
        prompts = tests * (1 - (1 - drawn / tests) ** runs)
        return "generation", self._generated(
            parameters,
            prompts * (len(own_test_codes(self.config, task, language)) or 1),
            length,
            settings["max_new_tokens"],
            settings.get("beams", 1),
        )

    def _settings(self, task: str) -> dict[str, Any]:
        """The settings of a task, with the defaults of its kind."""
        entry = self.config["tasks"][task]
        return dict(task_kind(entry["kind"]).settings()) | entry

    def _drawn(
        self, task: str, language: str, settings: Mapping[str, Any]
    ) -> tuple[float, float, int]:
        """The numbers of a task's prompts, of prompts drawn per run, and of runs."""
        entry = self.config["languages"][tested_language(self.config, task, language)]
        given = {"translation": "translation_pairs", "summarization": "summarization_pairs"}
        tests = entry.get(given.get(settings["kind"], "")) or TESTS
        tests = TESTS if "examples" in settings else tests
        drawn = min(settings.get("samples") or tests, tests)
        return tests, drawn, self.config["run_tasks"][task]["runs"]

    # ---- seconds by kind of work -----------------------------------------------------------------

    def _scored(self, parameters: float, tokens: float) -> float:
        return 2 * parameters * tokens / (SCORING * self.peak.flops)

    def _step(self, parameters: float) -> float:
        return max(STEP_SECONDS, 2 * parameters / (READING * self.peak.bandwidth))

    def _generated(
        self, parameters: float, prompts: float, length: float, new: int, beams: int = 1
    ) -> float:
        together = max(1, min(BATCH_PROMPTS, BATCH_TOKENS // (beams * (length + new))))
        steps = math.ceil(prompts / together) * new
        return steps * self._step(parameters) + self._scored(parameters, prompts * length)

    def _loading(self, source: str) -> float:
        return START_SECONDS + 2 * self.parameters(source) / DISK

    # ---- models and texts ------------------------------------------------------------------------

    def _known_parameters(self, source: str) -> float | None:
        if found := self._card("prepare_source", source=source).get("parameters"):
            return float(found)
        billions = self.config["sources"][source]["resources"].get("billion_parameters")
        return billions and billions * 1e9

    def _text(self, language: str, part: str = "train") -> Text:
        """The size of a part of a corpus: `train`, `heldout` or `english`."""
        sizes = self._card("prepare_corpus", language=language).get("sizes", {}).get(part, {})
        if count := sizes.get("sentences"):
            return Text(count, sizes["characters"] / count, sizes["bytes"] / count)
        entries = [self.config["languages"][name] for name in members(self.config, language)]
        width = fmean(_WIDTHS.get(entry.get("script", "Latn"), 3) for entry in entries)
        own = [entry.get("resources", {}).get("characters", CHARACTERS) for entry in entries]
        characters = CHARACTERS if part == "english" else fmean(own)
        if part == "train":
            given = self._train_sentences(language, characters)
        else:
            given = sum(entry.get(f"{part}_sentences") or TESTS for entry in entries)
        return Text(given, characters, characters * width)

    def _train_sentences(self, language: str, characters: float) -> float:
        """The smallest limit on the text; for a group without limits, the sum over its members."""
        entry = self.config["languages"][language]
        limits = [entry.get("train_sentences")]
        if most := entry.get("train_characters"):
            limits.append(most / characters)
        given = [limit for limit in limits if limit]
        if not given and "group" in entry:
            names = members(self.config, language)
            return sum(self._train_sentences(name, characters) for name in names)
        return min(given, default=SENTENCES)

    def _density(self, source: str, language: str, vocabulary: str) -> float:
        """Tokens per character, which decrease with a vocabulary's tokens for the language."""
        text = self.text(language)
        each = _SOURCE[min(3, max(1, round(text.bytes / text.characters)))]
        entry = self.config["vocabularies"].get(vocabulary)
        if entry is None or entry["mode"] == "prune":
            return 1 / each
        card = self._card(
            "expand_vocabulary", source=source, language=language, vocabulary=vocabulary
        )
        if after := card.get("train_fertility_after"):
            return float(after / card["train_fertility_before"]) / each
        size = entry.get("new_tokens") or entry.get("size")
        made = 1 + 1.2 * math.log10(size / 100) if size else MOST
        return 1 / max(each, min(made, MOST))

    def _longer(
        self, phase: Mapping[str, Any], teacher: str, language: str, density: float
    ) -> float:
        """Teacher tokens per training token: a teacher with another vocabulary has its own."""
        own = phase["objective"] in ("aim", "alm")
        return self.density(teacher, language, "source") / density if own else 1.0

    def _sample_tokens(self, language: str, name: str, density: float) -> float:
        """Number of tokens of samples and prompts; pairs are translated in both directions."""
        found = 0.0
        for member in members(self.config, language):
            if entry := self.config["languages"][member]["samples"].get(name):
                rows = 2 * (entry.get("pairs") or 0) or entry.get("questions") or SENTENCES
                found += rows * CHARACTERS * (density + 1 / ENGLISH)
        return found

    def _visited(self, amount: Mapping[str, Any], language: str, length: float) -> float:
        """Number of training tokens of a strategy or phase, for a text of `length` tokens."""
        if each := amount.get("tokens_per_language"):
            return float(each * len(members(self.config, language)))
        return float(amount.get("tokens") or amount["epochs"] * length)

    def _card(self, rule: str, **wildcards: str) -> dict[str, Any]:
        """A card on disk, if cards are read; rules with the same folder write the same card."""
        if not self.reads_cards:
            return {}
        try:
            path = Path(self.study.output(rule, **wildcards).card)
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found
        except (OSError, ValueError):
            return {}


def training_flops(phase: Mapping[str, Any], recomputes: bool, parameters: float) -> float:
    """FLOPs per training token in a phase of a strategy."""
    each = parameters * (4 + 2 * ("all" in phase["trainable"]) + 2 * recomputes)
    return each if (phase.get("aim") or {}).get("next_weight") else each * _depth(phase)


def _depth(phase: Mapping[str, Any]) -> float:
    """The share of layers that a phase computes, of a teacher, and of a model without its head."""
    return 1 / 3 if phase.get("objective") == "aim" else 1.0


def chosen_device(config: Mapping[str, Any]) -> str | None:
    """The device set in the environment or in the config's `machine`; None if neither is set."""
    return setting("device") or config.get("machine", {}).get("device")
