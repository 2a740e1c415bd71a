"""A study: the cells of a config, and the jobs that compute them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from lexigraft.artifacts.checksums import files_at, state_of
from lexigraft.artifacts.completion import input_checksum, leaves
from lexigraft.cells import Cell, cells_of
from lexigraft.corpus.local_files import local_paths
from lexigraft.errors import UserError
from lexigraft.job import PREFIX, without_prefix
from lexigraft.machine import job_environment
from lexigraft.plugins import VARIABLE as PLUGINS
from lexigraft.source.revision_lock import read_lock
from lexigraft.yaml_files import read_yaml
from workflow.config.registries import (
    REGISTRIES,
    ROOT,
    WITHOUT_EFFECT,
    load_registries,
    resolve,
)
from workflow.config.revisions import with_commits
from workflow.cost import DEVICE, CostModel, chosen_device
from workflow.stages.stage import CARD, PACKAGES, STAGES, Output, Resources

# Snakemake takes `{name}` in a path for a wildcard, without an escape for it, and cannot lock files
# whose names are not UTF-8. The checksums of such files are in the job's description.
_UNNAMEABLE = re.compile("[{\ud800-\udfff]")
# Stages that are one rule.
_RULES = {
    "mix_corpora": "prepare_corpus",
    "mix_samples": "prepare_samples",
    "prepare_test_set": "prepare_examples",
    "expand_vocabulary": "build_vocabulary",
    "train_vocabulary": "build_vocabulary",
    "learn_initialization": "initialize",
    **dict.fromkeys(
        ("train_fasttext", "train_glove", "read_word_vectors", "read_plm", "encode_tokens"),
        "compute_vectors",
    ),
}
P = ParamSpec("P")
Found = TypeVar("Found")


def once(
    compute: Callable[Concatenate["Study", P], Found],
) -> Callable[Concatenate["Study", P], Found]:
    """Cache a function of a study by its arguments, until the study changes."""

    @wraps(compute)
    def found(study: "Study", *arguments: P.args, **named: P.kwargs) -> Found:
        key = (compute, *arguments, *named.items())
        if key not in study.shared:
            study.shared[key] = compute(study, *arguments, **named)
        result: Found = study.shared[key]
        return result

    return found


@dataclass(frozen=True, eq=False)
class Job:
    """One job of a study, as Snakemake would plan it.

    `output` is its output folder, with rule and wildcards; `needs` are the cards of the jobs that
    it depends on, `files` the user's files that it reads.
    """

    output: Output
    needs: tuple[str, ...]
    files: tuple[str, ...]
    log: str

    @property
    def rule(self) -> str:
        """The rule of the job."""
        return self.output.rule

    @property
    def package(self) -> str:
        """The library's package that the rule belongs to."""
        return STAGES[self.rule].package


class Study:
    """The cells, tasks and report items of one resolved config, and the jobs that compute them.

    `config` is the result of `workflow.config.registries.resolve`; revisions on the hub are
    replaced by the commits that its results folder locks.
    """

    def __init__(self, config: dict[str, Any]):
        self.config = config
        self.name: str = config["study"]
        self.results: str = config["results"].rstrip("/")
        self.cells: list[Cell] = cells_of(config["cells"], config["aliases"])
        self.shared: dict[tuple[Any, ...], Any] = {}  # see `once`
        self.rules: Any = None  # Snakemake's, set by the Snakefile
        self.take_commits()

    def take_commits(self) -> None:
        """Apply the commits that the results folder locks (`lexigraft.source.revision_lock`)."""
        self.locked = read_lock(self.results)
        reading = {*REGISTRIES, "alignment"} & self.config.keys()
        read = {key: self.config[key] for key in self.config if key in reading}
        self.config = self.config | with_commits(read, self.locked)
        self.shared.clear()

    def environment(self) -> dict[str, str]:
        """Environment variables of jobs: prefix, hub cache, plug-ins, settings of the machine."""
        places = {PREFIX: self.config["prefix"], "HF_HUB_CACHE": self.config["hub_cache"]}
        own = {name: str(Path(place).expanduser()) for name, place in places.items() if place}
        plugins = {PLUGINS: json.dumps(self.config.get("plugins", []))}
        return own | plugins | job_environment(self.config["machine"])

    @cached_property
    def cost_model(self) -> CostModel:
        """The model for time limits, which depend on the config alone, not on finished jobs."""
        return CostModel(self.config, chosen_device(self.config) or DEVICE)

    @cached_property
    def prompts(self) -> str:
        """The folder of prompts: relative if the study runs in the repository itself."""
        return in_repository("config/prompts")

    @cached_property
    def metrics_python(self) -> str:
        """The Python of learned metrics: in the working folder, otherwise in the repository."""
        python: str = self.config["metrics_python"]
        return python if Path(python).exists() else in_repository(python)

    # ---- paths of outputs -----------------------------------------------------------------------

    def output(self, rule: str, **wildcards: Any) -> Output:
        """The output folder of a rule with its wildcards."""
        texts = {name: str(value) for name, value in wildcards.items()}
        folder = self.template(rule).format(**texts)
        return Output(folder, rule, texts, f"{folder}/{STAGES[rule].card.format(study=self.name)}")

    @once
    def template(self, rule: str) -> str:
        """The output folder of a rule, with its wildcards in braces."""
        is_package = rule == "fetch_package"
        below = self.config["packages_folder"].rstrip("/") if is_package else self.results
        return f"{below}/{STAGES[rule].folder.replace('{study}', self.name)}"

    def card(self, rule: str) -> str:
        """The output that a rule declares, with its wildcards and their patterns in braces."""
        stage, own = STAGES[rule], self.constraints(rule)
        folder = re.sub(
            r"\{(\w+)\}",
            lambda found: f"{{{found[1]},{own.get(found[1]) or stage.pattern(found[1])}}}",
            self.template(rule),
        )
        return f"{folder}/{stage.card.format(study=self.name)}"

    @once
    def card_of(self, rule: str) -> str:
        """The card that a rule writes, with its wildcards in braces."""
        return str(getattr(self.rules, rule).output[0])

    def log(self, rule: str) -> str:
        """The log of a rule, with its wildcards in braces."""
        return f"{self.results}/logs/{STAGES[rule].log.replace('{study}', self.name)}.log"

    def constraints(self, rule: str) -> dict[str, str]:
        """Patterns of the wildcards that distinguish a rule from others with the same outputs.

        Without any names, the pattern matches nothing: Snakemake would treat an empty one as no
        constraint, and the rule would apply to every job.
        """
        found = names(self) if (names := STAGES[rule].names) else {}
        return {
            wildcard: "|".join(map(re.escape, sorted({*allowed}))) or "(?!)"
            for wildcard, allowed in found.items()
        }

    # ---- job descriptions, for Snakemake and the scripts of jobs --------------------------------

    def describe(self, rule: str, wildcards: Mapping[str, str]) -> dict[str, Any]:
        """What a stage says of a job, and among its inputs all local files that settings name."""
        job = dict(STAGES[rule].describe(self, **dict(wildcards.items())))
        if rule != "build_report":  # its settings repeat the study
            named = [job["settings"], *(task["settings"] for task in job.get("tasks", {}).values())]
            known = own_files(job["inputs"])
            if files := [path for path in local_paths(named) if path not in known]:
                job["inputs"] = {**job["inputs"], "files": files}
        return job

    def described(self, rule: str, wildcards: Mapping[str, str]) -> dict[str, Any]:
        """The job description of one rule and its wildcards, as its script reads it."""
        stage, output = STAGES[rule], self.output(rule, **dict(wildcards.items()))
        job = self.describe(rule, wildcards)
        settings = {key: value for key, value in job["settings"].items() if key != WITHOUT_EFFECT}
        own = {"card": output.card} if stage.card != CARD else {}
        kinds = job.pop("versions", {})
        contents = self._contents(output.card, own_files(job["inputs"]))
        return {
            "rule": _RULES.get(rule, rule),
            **job,
            "settings": settings,
            "outputs": {"folder": str(output), **own, **job.get("outputs", {})},
            **({"contents": contents} if contents else {}),
            **({"versions": {"stage": stage.version, **kinds}} if stage.version else {}),
        }

    def job(self, rule: str, wildcards: Mapping[str, str]) -> str:
        """The job description as JSON text.

        One string contains everything that the output depends on and that Snakemake cannot see: the
        settings of the stage, its versions and the checksums of the user's files that it
        reads, whose dates may be older than the output. Snakemake compares a string parameter as a
        whole, unlike the values of a dict or list. Paths are relative to the study's prefix, if it
        has one.
        """
        text = json.dumps(self.described(rule, wildcards), ensure_ascii=False)
        return without_prefix(text, self.config["prefix"])

    def inputs(self, rule: str, wildcards: Mapping[str, str]) -> list[str]:
        """The inputs of a job for Snakemake: cards of other jobs, and existing local files.

        Their checksums are in the job's description, and their dates start it as well, since only
        the checkout that ran a job knows its earlier description. Files of a source model are left
        out: every step compares them with the card of the source, so dates alone start nothing.
        """
        needs, files = self._reads(rule, wildcards)
        if rule == "prepare_source":
            return [*needs]
        present = (str(file) for path in files for file in files_at(path))
        return [*needs, *(file for file in present if not _UNNAMEABLE.search(file))]

    def resources(self, rule: str) -> dict[str, Callable[..., int]]:
        """Memory and time limit of a job by its wildcards, times the number of the attempt."""

        def asked(key: str) -> Callable[..., int]:
            return lambda wildcards, attempt: (
                attempt * getattr(self._resources(rule, wildcards), key)
            )

        return {"mem_mb": asked("memory_mb"), "runtime": asked("minutes")}

    def gpus(self, rule: str) -> Callable[..., int]:
        """The number of GPUs that a job requests, by its wildcards."""
        return lambda wildcards: self._resources(rule, wildcards).gpus

    # ---- all jobs -------------------------------------------------------------------------------

    def jobs(self) -> dict[str, Job]:
        """Card -> job for all jobs of the study, ordered by stage, dependencies first."""
        found: dict[str, Job] = {}

        def visit(output: Output) -> None:
            if output.card in found:
                return
            needs, files = self._reads(output.rule, output.wildcards)
            for need in needs.values():
                visit(need)
            log = self.log(output.rule).format(**output.wildcards)
            # `output` may be only one file in it, if that is what others read.
            folder = self.output(output.rule, **output.wildcards)
            found[output.card] = Job(folder, tuple(needs), tuple(files), log)

        visit(self.output("build_report"))
        return dict(sorted(found.items(), key=lambda item: PACKAGES.index(item[1].package)))

    # ----------------------------------------------------------------------------------------------

    def _reads(
        self, rule: str, wildcards: Mapping[str, str]
    ) -> tuple[dict[str, Output], list[str]]:
        """Card -> output of other jobs that a job reads, and the user's files and folders."""
        stage = STAGES[rule]
        required = stage.requires(self, **dict(wildcards.items())) if stage.requires else ()
        inputs = self.describe(rule, wildcards)["inputs"]
        found: dict[str, Output] = {}
        for output in (*leaves(inputs), *required):
            if isinstance(output, Output):
                found.setdefault(output.card, output)
        return found, own_files(inputs)

    def _contents(self, card: str, files: list[str]) -> dict[str, str | None]:
        """File or folder of the user -> its checksum; a missing one keeps that in the job's card.

        So a plan works without the data, and what was made from deleted files stays valid.
        """
        found: dict[str, str | None] = dict.fromkeys(files)
        for path in files:
            with suppress(OSError, UserError):  # the job that reads it says what is wrong
                if files_at(path):
                    found[path] = self._checksum(path)
        if None in found.values():
            with suppress(OSError, ValueError, KeyError, TypeError):
                recorded = json.loads(Path(card).read_text("utf-8"))["job"]["contents"]
                found |= {path: recorded.get(path) for path in found if found[path] is None}
        return found

    def _checksum(self, path: str) -> str:
        """The checksum of an input, once for many jobs that read the same file.

        A run plans its jobs one by one, so that files may change in between.
        """
        state = state_of(path)
        if state is None:
            return input_checksum(path)
        if (path, state) not in self.shared:
            self.shared[path, state] = input_checksum(path)
        checksum: str = self.shared[path, state]
        return checksum

    def _resources(self, rule: str, wildcards: Mapping[str, str]) -> Resources:
        resources = STAGES[rule].resources
        assert resources is not None, f"{rule} is a local rule"
        return resources(self, **dict(wildcards.items()))


def open_study(config: str) -> Study:
    """The study of a config file."""
    return Study(resolve(read_yaml(Path(config)), load_registries()))


def in_repository(place: str) -> str:
    """A path in the repository: relative if that is the working folder."""
    return place if Path.cwd() == ROOT else str(ROOT / place)


def own_files(inputs: Any) -> list[str]:
    """The user's files and folders among the inputs of a job, each once, existing or not.

    For learned metrics, the card of the metric stands for the Python of their environment.
    """
    return list(dict.fromkeys(_own_files(inputs)))


def _own_files(inputs: Any) -> Iterator[str]:
    if isinstance(inputs, Mapping):
        is_on_hub = "hub" in inputs
        inputs = [] if is_on_hub else [inputs[key] for key in inputs if key != "python"]
    if isinstance(inputs, list | tuple):
        for value in inputs:
            yield from _own_files(value)
    elif isinstance(inputs, str) and not isinstance(inputs, Output):
        yield inputs
