"""The jobs of a study as the real Snakefile plans them, in this process.

Snakemake's API has no access to single jobs, so this reads its internal classes.
"""

import json
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import yaml
from snakemake.api import SnakemakeApi
from snakemake.settings.types import (
    ConfigSettings,
    DAGSettings,
    OutputSettings,
    Quietness,
    ResourceSettings,
)

from lexigraft.yaml_files import read_yaml
from workflow.config.registries import ROOT, load_registries, resolve
from workflow.study import Study


@dataclass(frozen=True)
class PlannedJob:
    """A job of a plan, with the description that its script reads."""

    rule: str
    wildcards: Mapping[str, str]
    card: str
    inputs: tuple[str, ...]
    log: str
    is_local: bool
    message: str
    description: dict[str, Any]
    resources: Mapping[str, Any]

    @property
    def folder(self) -> str:
        """Its output folder."""
        return str(Path(self.card).parent)


class Plan(Study):
    """A study with its rules, from its config or the name of a file in `config/studies`."""

    def __init__(self, config: str | Mapping[str, Any]):
        if isinstance(config, str):
            config = read_yaml(ROOT / f"config/studies/{config}.yaml")
        self._given = dict(config)
        resolved = resolve(deepcopy(self._given), _registries())
        super().__init__(resolved.settings, resolved.entries, resolved.titles)

    @cached_property
    def _workflow(self) -> Any:
        # The Snakefile sets environment variables of jobs.
        with NamedTemporaryFile("w", suffix=".yaml") as file, patch.dict(os.environ):
            yaml.safe_dump(self._given, file, allow_unicode=True, sort_keys=False)
            file.flush()
            with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
                workflow = api.workflow(
                    resource_settings=ResourceSettings(cores=2),
                    config_settings=ConfigSettings(configfiles=[Path(file.name)]),
                    snakefile=ROOT / "Snakefile",
                )
                workflow.dag(DAGSettings(forceall=True))
                return workflow._workflow

    def jobs(self) -> dict[str, PlannedJob]:
        """Card -> job, for all jobs of the report."""
        return self._jobs

    @cached_property
    def _jobs(self) -> dict[str, PlannedJob]:
        self._workflow._prepare_dag(forceall=True, ignore_incomplete=True, lock_warn_only=True)
        self._workflow._build_dag()
        jobs = (_planned(job) for job in self._workflow.dag.jobs if job.output)
        return {job.card: job for job in jobs}

    def job(self, rule: str, wildcards: Mapping[str, Any]) -> str:
        """The description of a job as text."""
        return json.dumps(self.described(rule, wildcards))

    def described(self, rule: str, wildcards: Mapping[str, Any]) -> dict[str, Any]:
        """The description of a job, whether or not the report needs it."""
        texts, snakemake_rule = _texts(wildcards), self._workflow.get_rule(rule)
        inputs, *_ = snakemake_rule.expand_input(texts)
        outputs, _ = snakemake_rule.expand_output(texts)
        stub = SimpleNamespace(resources=SimpleNamespace(_cores=1, gpu=1))
        params, _ = snakemake_rule.expand_params(texts, inputs, outputs, stub)
        return json.loads(params.job)

    def inputs(self, rule: str, wildcards: Mapping[str, Any]) -> list[str]:
        """The files that start a job when they are newer than its card."""
        inputs, *_ = self._workflow.get_rule(rule).expand_input(_texts(wildcards))
        return [*map(str, inputs)]


def _texts(wildcards: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in wildcards.items()}


def _planned(job: Any) -> PlannedJob:
    return PlannedJob(
        job.rule.name,
        dict(job.wildcards.items()),
        str(job.output[0]),
        tuple(map(str, job.input)),
        str(job.log[0]),
        job.rule.name in job.rule.workflow._localrules,
        job.message,
        json.loads(job.params.job),
        {name: job.resources.get(name) for name in ("mem_mb", "runtime", "gpu")},
    )


@cache
def _registries() -> dict[str, Any]:
    return load_registries()
