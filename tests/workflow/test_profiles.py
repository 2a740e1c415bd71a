"""The cluster's profile plans the default study, and the workflow passes Snakemake's linter."""

import json
import re

import pytest
import yaml
import yte

from lexigraft.machine import Machine
from tests.conftest import REPOSITORY, run_command

PROFILE = yaml.safe_load((REPOSITORY / "profiles/slurm/config.yaml").read_text(encoding="utf-8"))


GPU_JOBS = """
rule all:
    input: "a", "b"
rule one:
    output: "{name,[ab]}"
    resources: gpu=2
    shell:
        "python -m lexigraft.gpus {resources.gpu} sh -c "
        "'(echo {resources.gpu} $CUDA_VISIBLE_DEVICES; "
        "date +%s.%N; sleep 2; date +%s.%N) > {output}'"
"""


MACHINE = """
import json, os

rule machine:
    output: "machine"
    run: # in a process of its own, which reads the Snakefile again
        own = {name: value for name, value in os.environ.items() if name in VARIABLES}
        open(output[0], "w").write(json.dumps([config["machine"], own]))
"""


def snakemake(checkout, *arguments: str) -> str:
    """The output of a run that must succeed, on the checkout's own default config."""
    result = run_command(
        [checkout.python, "-m", "snakemake", *arguments],
        cwd=checkout.folder,
        env=checkout.environment(),
        timeout=300,
    )
    output = result.stdout + result.stderr
    assert result.returncode == 0 or "--lint" in arguments, output
    return output


def test_the_slurm_profile_plans_the_default_study(checkout):
    plan = snakemake(checkout, "--profile", "profiles/slurm", "-n")
    counts = dict(re.findall(r"^(\w+)\s+(\d+)$", plan, flags=re.MULTILINE))
    # Source, LAPT, two initializers.
    assert counts["train"] == "4"
    assert counts["prepare_source"] == "1"
    # None of them is learned: no job waits for a GPU that it has no use for.
    assert counts["initialize"] == "2" and "learn_initialization" not in counts


def rules() -> dict[str, str]:
    """Name -> text of every rule; a variant of a rule has the text of both."""
    files = sorted((REPOSITORY / "workflow/rules").glob("*.smk"))
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    head = r"^(?:rule|use rule (?P<original>\w+) as) (?P<name>\w+)(?: with)?:\n(?:(?: .*)?\n)+"
    texts: dict[str, str] = {}
    for found in re.finditer(head, text, re.M):
        texts[found["name"]] = texts.get(found["original"], "") + found[0]
    return texts


def test_every_rule_has_a_card_a_log_a_message_and_a_job():
    assert len(rules()) > 15
    for name, text in rules().items():
        for part in ('card="', "log:", "message:", "job=job(", "scripts/job.sh"):
            assert part in text, f"{name}: {part}"


def test_jobs_with_a_gpu_and_no_others_go_to_the_partition_with_gpus():
    on_gpus = {name for name, text in rules().items() if re.search(r"\bgpu=[^0]", text)}
    assert {"train", "evaluate", "evaluate_checkpoint", "learn_initialization"} <= on_gpus
    assert set(PROFILE["set-resources"]) == on_gpus
    assert len({id(settings) for settings in PROFILE["set-resources"].values()}) == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"gpu": 2}),
        (["--profile", "profiles/slurm"], None),
        (["--executor", "slurm"], None),
    ],
)
def test_the_default_profile_limits_jobs_of_this_machine_alone(monkeypatch, arguments, expected):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    monkeypatch.setattr("sys.argv", ["snakemake", *arguments])
    with (REPOSITORY / "profiles/default/config.yaml").open() as file:
        profile = yte.process_yaml(file, require_use_yte=True)
    assert profile.get("resources") == expected
    assert profile["keep-going"] is True


def test_jobs_run_one_after_the_other_on_one_gpu_which_each_one_sees(checkout, monkeypatch):
    """A rule that requests more GPUs than there are gets all of them; without any, none."""
    (checkout.folder / "Snakefile").write_text(GPU_JOBS, encoding="utf-8")
    for visible, granted in (("0", 1), ("", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        snakemake(checkout, "--cores", "2", "--forceall")
        jobs = [(checkout.folder / name).read_text().splitlines() for name in ("a", "b")]
        assert [job[0] for job in jobs] == [f"{granted} {visible}".strip()] * 2
        (began, ended), (began_other, ended_other) = (map(float, job[1:]) for job in jobs)
        apart = ended <= began_other or ended_other <= began
        assert apart == (granted == 1)


def test_a_profile_sets_how_the_machine_computes_for_all_jobs(checkout, monkeypatch):
    """The environment goes before the profile, and the profile before the study."""
    variables = [f"LEXIGRAFT_{name.upper()}" for name in Machine.model_fields]
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LEXIGRAFT_SAVE_MINUTES", "7")
    checkout.change(lambda study: study.update(machine={"pass_tokens": 512, "logits_chunk": 99}))
    settings = {"pass_tokens": 8192, "save_minutes": 0.5, "precision": "float32"}
    profile = {"config": {"machine": settings}}
    (checkout.folder / "mine").mkdir()
    (checkout.folder / "mine" / "config.yaml").write_text(yaml.safe_dump(profile))
    with (checkout.folder / "Snakefile").open("a") as file:
        file.write(MACHINE.replace("VARIABLES", repr(variables)))
    snakemake(checkout, "--profile", "mine", "--configfile", "study.yaml", "-c1", "--", "machine")
    read, environment = json.loads((checkout.folder / "machine").read_text())
    assert read == {"logits_chunk": 99} | {key: str(value) for key, value in settings.items()}
    assert environment == {
        "LEXIGRAFT_LOGITS_CHUNK": "99",
        "LEXIGRAFT_PASS_TOKENS": "8192",
        "LEXIGRAFT_PRECISION": "float32",
        "LEXIGRAFT_SAVE_MINUTES": "7",
    }


def test_lint_finds_nothing_but_the_one_pinned_environment(checkout):
    """`make` builds one environment for all rules, so rules name no conda environment."""
    lints = set(re.findall(r"^\s+\* (.*)$", snakemake(checkout, "--lint"), flags=re.MULTILINE))
    assert lints == {"Specify a conda environment or container for each rule.:"}
