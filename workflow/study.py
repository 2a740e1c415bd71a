"""A study: its config with all defaults, its cells, and where its rules write."""

import json
import re
from collections.abc import Callable
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from lexigraft.cells import Cell, cells_of
from lexigraft.job import PLUGINS, PREFIX
from lexigraft.machine import job_environment
from lexigraft.source.revision_lock import read_lock
from lexigraft.yaml_files import read_yaml
from workflow.config.registries import REGISTRIES, ROOT, load_registries, resolve
from workflow.config.revisions import with_commits
from workflow.cost import DEVICE, CostModel, chosen_device
from workflow.rule_files import rules

P = ParamSpec("P")
Result = TypeVar("Result")


def once(
    compute: Callable[Concatenate["Study", P], Result],
) -> Callable[Concatenate["Study", P], Result]:
    """Cache a function of a study by its arguments, until the study changes."""

    @wraps(compute)
    def cached(study: "Study", *arguments: P.args, **named: P.kwargs) -> Result:
        key = (compute, *arguments, *named.items())
        if key not in study.shared:
            study.shared[key] = compute(study, *arguments, **named)
        result: Result = study.shared[key]
        return result

    return cached


class Study:
    """The cells, tasks and report items of one resolved config.

    `config` is the result of `workflow.config.registries.resolve`; revisions on the hub are
    replaced by the commits that its results folder locks.
    """

    def __init__(self, config: dict[str, Any]):
        self.config = config
        self.name: str = config["study"]
        self.results: str = config["results"].rstrip("/")
        self.cells: list[Cell] = cells_of(config["cells"], config["aliases"])
        self.shared: dict[tuple[Any, ...], Any] = {}  # see `once`
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
        folders = {PREFIX: self.config["prefix"], "HF_HUB_CACHE": self.config["hub_cache"]}
        given = {name: str(Path(path).expanduser()) for name, path in folders.items() if path}
        plugins = {PLUGINS: json.dumps(self.config.get("plugins", []))}
        return given | plugins | job_environment(self.config["machine"])

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

    @cached_property
    def path_variables(self) -> dict[str, str]:
        """The variables of paths in rules, such as `<results>`.

        None has wildcards: Snakemake 9.27 does not constrain wildcards in variables.
        """
        return {
            "results": self.results,
            "logs": f"{self.results}/logs",
            "packages": self.config["packages_folder"].rstrip("/"),
            "study": self.name,
        }

    @once
    def card_path(self, rule: str) -> str:
        """The card that a rule writes, with its wildcards in braces."""
        return re.sub(r"<(\w+)>", lambda name: self.path_variables[name[1]], rules()[rule].card)

    def card(self, rule: str, **wildcards: Any) -> str:
        """The card of a job, which marks its output as complete."""
        return self.card_path(rule).format(**wildcards)

    def folder(self, rule: str, **wildcards: Any) -> str:
        """The folder in which a job writes its card and other files."""
        return self.card(rule, **wildcards).rpartition("/")[0]


def open_study(config: str) -> Study:
    """The study of a config file."""
    return Study(resolve(read_yaml(Path(config)), load_registries()))


def in_repository(path: str) -> str:
    """A path in the repository: relative if that is the working folder."""
    return path if Path.cwd() == ROOT else str(ROOT / path)
