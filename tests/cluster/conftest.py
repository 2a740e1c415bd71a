"""The real Snakefile with the real profile on a real Slurm: `make test-cluster`.

Slurm starts each job here with an ordinary Python, as it would start a user's. The jobs before
those that a test is about run once, on this machine without Slurm.
"""

import copy
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster.slurm import Cluster, is_installed
from tests.workflow.conftest import Checkout, copy_project, miniature, texts  # noqa: F401

if not os.environ.get("LEXIGRAFT_CLUSTER"):
    collect_ignore_glob = ["test_*.py"]

# Cells by their seed, one that asks for too little memory at first, and one for too little time.
CELL = "tiny/telugu/expand-50/align/short/seed-{}"
LITTLE_MEMORY = "tiny/telugu/expand-50/align/little-memory/seed-0"
LITTLE_TIME = "tiny/telugu/expand-50/align/little-time/seed-0"

# While this file exists, training pauses after each checkpoint.
PAUSE = "pause"

# Snakemake checks the queue less and less often while no job in it ends successfully.
FREQUENT_STATUS_CHECKS = """
from snakemake_interface_executor_plugins.executors import remote

remote.RemoteExecutor.next_seconds_between_status_checks = property(lambda _: 2, lambda *_: None)
"""


def card(cell: str) -> str:
    """The output of training that Snakemake knows."""
    return f"results/training/{cell}/card.json"


def evaluation_card(cell: str) -> str:
    """The output of a cell's evaluation that Snakemake knows."""
    return f"results/evaluation/{cell}/card-miniature.json"


def speed_card(cell: str) -> str:
    """The output of a cell's speed measurement that Snakemake knows."""
    return f"results/evaluation/{cell}/speed/card-miniature.json"


def record(cell: str, task: str, run: int = 0) -> str:
    """The result of one run of a task."""
    return f"results/evaluation/{cell}/{task}/run-{run}/record.json"


@dataclass
class Submitter:
    """A Snakemake that submits jobs, and its output."""

    process: subprocess.Popen
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def wait(self, seconds: float = 900) -> int:
        """Its exit status, once it has ended."""
        return self.process.wait(timeout=seconds)

    def kill(self) -> None:
        """SIGKILL, which leaves its lock and its jobs."""
        self.process.kill()
        self.process.wait()


@dataclass
class SlurmCheckout(Checkout):
    """A copy of the project whose jobs are submitted to Slurm."""

    cluster: Cluster
    submitters: list[Submitter] = field(default_factory=list)

    def start(self, *arguments: str) -> Submitter:
        """Start Snakemake with Slurm's profile, without waiting for its end."""
        often = ["--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "20"]
        study = ["--configfile", "study.yaml", "--profile", "profiles/slurm"]
        log = self.folder / f"snakemake-{len(self.submitters)}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "snakemake", *study, *often, *arguments],
                cwd=self.folder,
                env=self.environment() | self.cluster.variables,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.submitters.append(Submitter(process, log))
        return self.submitters[-1]

    def run(self, *arguments: str) -> Submitter:
        """Start Snakemake with Slurm's profile and wait until it ends."""
        submitter = self.start(*arguments)
        submitter.wait()
        return submitter

    def submitted(self) -> list:
        """Jobs of this folder, in the order of submission."""
        return [job for job in self.cluster.jobs() if job.log.is_relative_to(self.folder)]

    def pause_training(self) -> None:
        """Have training pause at its next checkpoint."""
        (self.folder / PAUSE).touch()

    def resume_training(self) -> None:
        """Let paused training continue."""
        (self.folder / PAUSE).unlink()

    def has_checkpoint(self, cell: str) -> bool:
        """Whether a cell has a complete checkpoint to resume from."""
        return any((self.folder / card(cell)).parent.glob("checkpoints/*/phase-0/*/complete.json"))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A Slurm of two nodes with four GPUs each."""
    assert is_installed(), "Slurm's programs are missing; `make test-cluster` installs them"
    slurm = Cluster(tmp_path_factory.mktemp("slurm") / "etc")
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()


@pytest.fixture(scope="session")
def study(miniature) -> dict:  # noqa: F811
    """A study of one language, a cell with four seeds, and two that ask for too little."""
    config = copy.deepcopy(miniature)
    axes = {"languages": ["telugu"], "vocabularies": ["expand-50"], "initializers": ["align"]}
    config["cells"] = [
        config["cells"][0],
        {**axes, "sources": ["tiny"], "strategies": ["short"], "seeds": [*range(4)]},
        {**axes, "sources": ["tiny"], "strategies": ["little-memory", "little-time"]},
    ]
    config["sources"]["tiny"]["resources"] = {
        "initialization_mb": 1500,
        "training_mb": 2500,
        "training_minutes": 9,
        "evaluation_mb": 2200,
        "evaluation_minutes": 7,
    }
    short = config["strategies"]["short"]
    config["strategies"]["little-memory"] = {**short, "resources": {"memory": 0.2}}  # 500 MB
    config["strategies"]["little-time"] = {**short, "resources": {"time": 0.1}}  # a minute
    config["run_tasks"] = {"perplexity": {}, "translation-short": {"runs": 2}, "speed-short": {}}
    return config


@pytest.fixture(scope="session")
def project(tmp_path_factory, study) -> Checkout:
    """A copy of the project, nothing run, with a checkpoint and a pause at every training step."""
    checkout = copy_project(tmp_path_factory.mktemp("project") / "project")
    checkout.config = study
    checkpoints = "lexigraft/training/checkpointing.py"
    checkout.edit(checkpoints, "seconds: float = 60.0", "seconds: float = 0.0")
    checkout.edit(checkpoints, "factor: float = 50.0", "factor: float = 0.0")
    last = "        write_json(checkpoint / COMPLETE, _sizes(checkpoint))\n"
    checkout.edit(
        checkpoints,
        last,
        f'{last}        while Path("{PAUSE}").exists():\n            time.sleep(0.1)\n',
    )
    with (checkout.folder / "Snakefile").open("a", encoding="utf-8") as snakefile:
        snakefile.write(FREQUENT_STATUS_CHECKS)
    return checkout


@pytest.fixture(scope="session")
def prepared(project, tmp_path_factory) -> Checkout:
    """The same, with everything before training complete."""
    checkout = Checkout(tmp_path_factory.mktemp("prepared") / "project")
    shutil.copytree(project.folder, checkout.folder)
    fitted = "results/initialization/tiny/telugu/expand-50/align/all-seeds/card.json"
    result = checkout.snakemake("--", fitted)
    assert result.returncode == 0, result.stdout + result.stderr
    return checkout


@pytest.fixture(scope="module")
def copied(cluster, tmp_path_factory):
    """Factory of copies of a project, whose Snakemakes end with the module."""
    copies = []

    def build(original: Checkout) -> SlurmCheckout:
        folder = tmp_path_factory.mktemp("study") / "project"
        shutil.copytree(original.folder, folder)
        copies.append(SlurmCheckout(folder, cluster))
        return copies[-1]

    yield build
    for submitter in (submitter for checkout in copies for submitter in checkout.submitters):
        submitter.kill()
