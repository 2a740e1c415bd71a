"""The real Snakefile with the real profile on a real Slurm: `make test-cluster`.

Each job here is started by Slurm, as a user's would be, by an ordinary Python. What comes before
the jobs that a test is about is made once, on this machine alone.
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

# Cells by their seed, one that has not enough memory at first, and one that has not enough time.
CELL = "tiny/telugu/expand-50/align/short/seed-{}"
CRAMPED = "tiny/telugu/expand-50/align/cramped/seed-0"
HASTY = "tiny/telugu/expand-50/align/hasty/seed-0"

# While this file is there, training stands still behind each checkpoint.
HOLD = "hold"

# Snakemake looks into the queue less and less often as long as nothing there ends well.
IMPATIENCE = """
from snakemake_interface_executor_plugins.executors import remote

remote.RemoteExecutor.next_seconds_between_status_checks = property(lambda _: 2, lambda *_: None)
"""


def card(cell: str) -> str:
    """What training writes last."""
    return f"results/training/{cell}/card.json"


def record(cell: str, task: str, run: int = 0) -> str:
    """What an evaluation writes last but its card."""
    return f"results/evaluation/{cell}/{task}/run-{run}/record.json"


@dataclass
class Head:
    """A Snakemake that submits jobs, and all it said."""

    process: subprocess.Popen
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def wait(self, seconds: float = 900) -> int:
        """Its exit status, once it has ended."""
        return self.process.wait(timeout=seconds)


@dataclass
class OnSlurm(Checkout):
    """A copy of the project whose jobs go to a cluster."""

    cluster: Cluster
    heads: list[Head] = field(default_factory=list)

    def start(self, *arguments: str) -> Head:
        """Snakemake with the profile of Slurm, and on with the test while it runs."""
        often = ["--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "20"]
        study = ["--configfile", "study.yaml", "--profile", "profiles/slurm"]
        log = self.folder / f"head-{len(self.heads)}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "snakemake", *study, *often, *arguments],
                cwd=self.folder,
                env=self.environment() | self.cluster.variables,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.heads.append(Head(process, log))
        return self.heads[-1]

    def run(self, *arguments: str) -> Head:
        """The same, once it has ended."""
        head = self.start(*arguments)
        head.wait()
        return head

    def submitted(self) -> list:
        """Jobs of this folder, in the order of submission."""
        return [job for job in self.cluster.jobs() if job.log.is_relative_to(self.folder)]

    def hold(self) -> None:
        """Have training stand still at its next checkpoint."""
        (self.folder / HOLD).touch()

    def release(self) -> None:
        """Let it go on."""
        (self.folder / HOLD).unlink()

    def stands(self, cell: str) -> bool:
        """Whether a cell has a whole checkpoint to go on from."""
        return any((self.folder / card(cell)).parent.glob("checkpoints/*/phase-0/*/complete.json"))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A Slurm of two nodes with four GPUs each."""
    assert is_installed(), "Slurm's programs are missing; `make test-cluster` installs them"
    made = Cluster(tmp_path_factory.mktemp("slurm") / "etc")
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def study(miniature) -> dict:  # noqa: F811
    """A study of one language, a cell with four seeds, and two with too little of something."""
    config = copy.deepcopy(miniature)
    axes = {"languages": ["telugu"], "vocabularies": ["expand-50"], "initializers": ["align"]}
    config["cells"] = [
        config["cells"][0],
        {**axes, "sources": ["tiny"], "strategies": ["short"], "seeds": [*range(4)]},
        {**axes, "sources": ["tiny"], "strategies": ["cramped", "hasty"]},
    ]
    config["sources"]["tiny"]["resources"] = {
        "initialization_mb": 1500,
        "training_mb": 2500,
        "training_minutes": 9,
        "evaluation_mb": 2200,
        "evaluation_minutes": 7,
    }
    short = config["strategies"]["short"]
    config["strategies"]["cramped"] = {**short, "resources": {"memory": 0.2}}  # 500 MB
    config["strategies"]["hasty"] = {**short, "resources": {"time": 0.1}}  # a minute
    config["run_tasks"] = {"perplexity": {}, "translation-short": {"runs": 2}}
    return config


@pytest.fixture(scope="session")
def project(tmp_path_factory, study) -> Checkout:
    """A copy of the project that is easy to watch; nothing is run."""
    made = copy_project(tmp_path_factory.mktemp("project") / "project")
    made.config = study
    checkpoints = "lexigraft/training/checkpointing.py"
    made.edit(checkpoints, "seconds: float = 60.0", "seconds: float = 0.0")
    made.edit(checkpoints, "factor: float = 20.0", "factor: float = 0.0")
    seal = "        write_json(checkpoint / COMPLETE, _sizes(checkpoint))\n"
    made.edit(
        checkpoints,
        seal,
        f'{seal}        while Path("{HOLD}").exists():\n            time.sleep(0.1)\n',
    )
    made.edit("Snakefile", "forgive_clocks(DAG)\n", f"forgive_clocks(DAG)\n{IMPATIENCE}")
    return made


@pytest.fixture(scope="session")
def prepared(project, tmp_path_factory) -> Checkout:
    """The same, all ready for training."""
    made = Checkout(tmp_path_factory.mktemp("prepared") / "project")
    shutil.copytree(project.folder, made.folder)
    fitted = "results/initialization/tiny/telugu/expand-50/align/all-seeds/card.json"
    result = made.snakemake("--", fitted)
    assert result.returncode == 0, result.stdout + result.stderr
    return made


@pytest.fixture(scope="module")
def copied(cluster, tmp_path_factory):
    """Factory of copies of a project, whose Snakemakes end with the module."""
    made = []

    def build(original: Checkout) -> OnSlurm:
        folder = tmp_path_factory.mktemp("study") / "project"
        shutil.copytree(original.folder, folder)
        made.append(OnSlurm(folder, cluster))
        return made[-1]

    yield build
    for head in (head for one in made for head in one.heads):
        head.process.kill()
        head.process.wait()
