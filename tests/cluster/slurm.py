"""A real Slurm on this machine: a controller and two nodes with simulated GPUs, in one folder.

Its daemons are children of this process, its ports are free ones and its munge has its own key, so
it changes neither the machine's settings nor another Slurm.
"""

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.conftest import run_command

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "munged")
# Slurm accepts only character devices as GPUs.
GPUS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")
NODES = ("node0", "node1")

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=1
GresTypes=gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
MinJobAge=3600
KillWait=2
SlurmctldTimeout=60
SlurmdTimeout=15
AccountingStorageType=accounting_storage/none
{nodes}
PartitionName=cpu Nodes={names} Default=YES MaxTime=1-0 State=UP
PartitionName=gpu Nodes={names} MaxTime=1-0 LLN=YES State=UP
"""
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
    "CPUs=24 RealMemory=60000 Gres=gpu:toy:{gpus} State=UNKNOWN"
)


@dataclass(frozen=True)
class SlurmJob:
    """One job, as Slurm shows it."""

    number: int
    state: str
    partition: str
    comment: str  # rule and wildcards, as Snakemake's plugin writes them
    node: str
    gpus: int
    cpus: int
    megabytes: int
    minutes: int
    log: Path


def wait_until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)


@dataclass
class Cluster:
    """The daemons, and what users and faults do to them."""

    folder: Path
    daemons: dict[str, subprocess.Popen] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that make commands, and Snakemake, use this Slurm."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}

    def start(self) -> None:
        (self.folder / "state").mkdir(parents=True)
        self._write_configuration()
        self._write_srun()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = [
            f"--{kind}-file={self.folder}/munge.{kind}" for kind in ("key", "pid", "log", "seed")
        ]
        self._spawn(
            "munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *files
        )
        wait_until((self.folder / "munge.socket").is_socket, 30, "munge listens")
        self._spawn("slurmctld", "-D")
        wait_until(lambda: "UP" in self.query("scontrol", "ping"), 60, "slurmctld answers")
        for node in NODES:
            self.start_node(node)

    def stop(self) -> None:
        if "slurmctld" in self.daemons:
            self.query("scancel", "--user", getpass.getuser())
            wait_until(lambda: not self.query("squeue", "--noheader"), 60, "all jobs ended")
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            daemon.wait(timeout=60)

    def start_node(self, node: str) -> None:
        (self.folder / f"spool-{node}").mkdir(exist_ok=True)
        self._spawn("slurmd", "-D", "-N", node, name=node)
        wait_until(lambda: "idle" in self._state_of(node), 60, f"{node} is idle")

    def lose_node(self, node: str) -> None:
        """Kill a node's daemon and all that runs on it, as a loss of power does."""
        daemon = self.daemons.pop(node)
        daemon.kill()
        daemon.wait()
        numbers = {
            str(job.number) for job in self.jobs() if job.node == node and job.state == "RUNNING"
        }
        for process in psutil.process_iter():
            if self._job_of(process) in numbers:
                process.kill()

    def cancel(self, number: int) -> None:
        self.query("scancel", str(number))

    def kill_script(self, number: int, script: str) -> None:
        """Send SIGKILL to the process that runs a job's script."""
        for process in psutil.process_iter(["pid", "cmdline"]):
            words = process.info["cmdline"] or [""]
            runs_script = any(word.endswith(script) for word in words[1:2])
            if runs_script and self._job_of(process) == str(number):
                return process.send_signal(signal.SIGKILL)
        raise AssertionError(f"job {number} does not run {script}")

    def jobs(self) -> list[SlurmJob]:
        """Every job since the cluster was started, in the order of submission."""
        lines = self.query("scontrol", "show", "jobs", "--oneliner").splitlines()
        return [_read_job(line) for line in lines if line.startswith("JobId=")]

    def query(self, *command: str) -> str:
        """The output of a Slurm command."""
        environment = os.environ | self.variables
        result = run_command(command, env=environment, timeout=60)
        return result.stdout

    def _state_of(self, node: str) -> str:
        return self.query("sinfo", "--noheader", "--nodes", node, "--format=%T")

    def _job_of(self, process: psutil.Process) -> str | None:
        """The number of the job of this cluster that a process belongs to."""
        try:
            title = re.match(r"slurmstepd: \[(\d+)\.", " ".join(process.cmdline()))
            if title:  # it overwrites its environment with its title
                return title[1] if process.cwd() == str(self.folder) else None
            environment = process.environ()
        except psutil.Error:
            return None
        if environment.get("SLURM_CONF") != self.variables["SLURM_CONF"]:
            return None
        return environment.get("SLURM_JOB_ID")

    def _spawn(self, *command: str, name: str | None = None) -> None:
        program = shutil.which(command[0], path=f"{os.environ['PATH']}:/usr/sbin")
        assert program is not None
        with (self.folder / f"{name or command[0]}.out").open("w") as log:
            self.daemons[name or command[0]] = subprocess.Popen(
                [program, *command[1:]],
                cwd=self.folder,  # `_job_of` recognizes its processes by it
                env=os.environ | self.variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _write_configuration(self) -> None:
        host = socket.gethostname().partition(".")[0]
        ports = _free_ports(1 + len(NODES))
        nodes = [
            NODE.format(name=name, host=host, port=port, gpus=len(GPUS))
            for name, port in zip(NODES, ports[1:], strict=True)
        ]
        configuration = CONFIGURATION.format(
            host=host,
            port=ports[0],
            user=getpass.getuser(),
            folder=self.folder,
            nodes="\n".join(nodes),
            names=",".join(NODES),
        )
        (self.folder / "slurm.conf").write_text(configuration)
        devices = [f"Name=gpu Type=toy File={device}" for device in GPUS]
        (self.folder / "gres.conf").write_text("\n".join(["AutoDetect=off", *devices]) + "\n")

    def _write_srun(self) -> None:
        """An `srun` that finds this Slurm: Snakemake's plugin removes SLURM_CONF for it."""
        program = self.folder / "bin" / "srun"
        program.parent.mkdir()
        settings = f"SLURM_CONF={self.folder / 'slurm.conf'}"
        program.write_text(f'#!/bin/sh\n{settings} exec {shutil.which("srun")} "$@"\n')
        program.chmod(0o755)


def is_installed() -> bool:
    """Whether Slurm's programs are on this machine."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    return all(shutil.which(program, path=path) for program in PROGRAMS)


def _read_job(line: str) -> SlurmJob:
    shown = dict(re.findall(r"(\S+?)=(\S*)", line))
    resources = dict(re.findall(r"([\w/:]+)=([\w.]+)", re.search(r" TRES=(\S*)", line)[1]))
    days, _, clock = shown["TimeLimit"].rpartition("-")
    hours, minutes, _ = map(int, clock.split(":"))
    return SlurmJob(
        number=int(shown["JobId"]),
        state=shown["JobState"],
        partition=shown["Partition"],
        comment=shown.get("Comment", ""),
        node=shown.get("NodeList", ""),
        gpus=int(shown.get("TresPerJob", "gres:gpu:0").rpartition(":")[2]),
        cpus=int(resources["cpu"]),
        megabytes=_megabytes(resources["mem"]),
        minutes=(int(days or 0) * 24 + hours) * 60 + minutes,
        log=Path(shown["StdOut"]),
    )


def _megabytes(size: str) -> int:
    number, unit = float(size[:-1]), size[-1]
    return round(number * {"M": 1, "G": 1024}[unit])


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
