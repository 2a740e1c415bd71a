"""The programs in benchmarks/: parts that no rehearsal reaches, and what they record."""

import json
import subprocess

import pytest
import yaml

from benchmarks import (
    expansion,
    generation,
    glove,
    initialization,
    planning,
    report,
    tokenization,
    training,
)
from benchmarks.planning import Run
from tests.conftest import run_command
from workflow import pages, records
from workflow.jobs import jobs_of
from workflow.state import DONE, states


def test_the_status_is_measured_of_jobs_that_are_done(tmp_path, monkeypatch):
    monkeypatch.setitem(planning.AXES, 1, (1, 1, 1))
    monkeypatch.setattr(planning, "INITIALIZERS", ("mean",))
    monkeypatch.setattr(planning, "STRATEGIES", ("lora-clm-512",))
    monkeypatch.chdir(tmp_path)
    study = tmp_path / planning.STUDY
    study.write_text(yaml.safe_dump(planning.grid(1, tmp_path)))
    planning.leave_outputs(tmp_path)
    found = states(jobs_of(str(study)))
    assert found
    assert {state.name for state in found.values()} == {DONE}


def test_the_report_is_measured_of_a_study_whose_cells_are_all_evaluated(tmp_path, monkeypatch):
    monkeypatch.setitem(planning.AXES, 1, (1, 1, 1))
    monkeypatch.setattr(planning, "INITIALIZERS", ("mean",))
    monkeypatch.setattr(planning, "STRATEGIES", ("lora-clm-512",))
    monkeypatch.chdir(tmp_path)
    study = report.study_of(1, tmp_path)
    report.leave_results(study)
    records = list(tmp_path.glob("results/evaluation/**/run-*/record.json"))
    assert len(records) == len(study.cells) * len(study.config["run_tasks"])


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of records, which is empty."""
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    return tmp_path


def benchmark_tables():
    """The tables of docs/benchmarks.md."""
    page = (pages.DOCS / "benchmarks.md").read_text(encoding="utf-8")
    return "\n".join(pages.table(match[2]) for match in pages.TABLE.finditer(page))


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Measurements of all benchmarks are made up; the options that name a model and a text."""
    numbers = {"cpu": 2.0, "wall": 3.0, "mib": 2048.0, "speed": 80.0, "before": 6.0, "after": 1.5}
    numbers |= dict.fromkeys(("cells", "cost 0", *glove.STEPS), 4.0)
    took = Run(wall=1.0, cpu=2.0, mib=3.0, output="total   1234\n")
    for module in (expansion, generation, initialization, tokenization, training):
        monkeypatch.setattr(module, "in_its_own_process", lambda *_, **__: numbers)
    for name in ("_ours", "_theirs"):
        monkeypatch.setattr(glove, name, lambda *_: numbers)
    monkeypatch.setattr(planning, "measured", lambda *_: took)
    monkeypatch.setattr(report, "measured", lambda cells: (cells + 5, 22222, took))
    generation.byte_tokens().save_pretrained(tmp_path / "bytes")
    (tmp_path / "text.txt").write_text("mto na mvua\nmto na maji\n" * 10)
    return ["--source", str(tmp_path / "bytes"), "--text", str(tmp_path / "text.txt")]


def test_the_page_shows_what_each_benchmark_records(results, made_up):
    assert benchmark_tables().count("Not yet measured") == 8
    for module in (expansion, tokenization):
        module.main([*made_up, "--record"])
    initialization.main([*made_up, "--size", "262", "--record", "align", "focus-norm"])
    glove.main([*made_up, "--size", "262", "--epochs", "1", "--programs", ".", "--record"])
    for module in (generation, training, planning, report):
        module.main(["--record"])
    page = benchmark_tables()
    assert "Not yet measured" not in page
    assert "source bytes, text text.txt, lines 20" in page
    for row in (
        "| VocADT's adapters, dense | float32 | 80 | 80 | 1.00 | 2.0 | 2.0 | 1.00 |",
        "| `continued` | 2.00 | 2.00 | 1.00 | 2,048 | 2,048 | 1.00 |",
        "| `align` | 2.00 | 2,048 | tokenizing once | 2.00 | 1.00 | 2,048 | 1.00 |",
        "| `focus-norm` | 2.00 | 2,048 | – | – | – | – | – |",
        "| batches of prompts | 1.5 | one `model.generate` per prompt | 6 | 0.25 |",
        "| plan of a paper | lowres | 1,234 | 1.0 | 2.0 | 3 |",
        "| `make status`, all done | 100 | 1,234 | 1.0 | 2.0 | 3 |",
        "| 1,005 | 22,222 | 1.0 | 2.0 | 3 |",
    ):
        assert row in page


def test_what_a_run_does_not_measure_stays_if_all_else_is_equal(results, made_up):
    def recorded():
        content = json.loads((results / "generation.json").read_text("utf-8"))
        return [row[0] for row in content["tables"]["measured"][1:]]

    generation.main(["--record", "short"])
    generation.main(["batches"])  # is not recorded
    generation.main(["--record", "prefix"])
    assert recorded() == ["prefix", "short"]
    generation.main(["--record", "--prompts", "4", "short"])
    assert recorded() == ["short"]


def test_an_interrupted_run_has_recorded_what_it_measured(results, made_up, monkeypatch):
    def measured(_, *given, **__):
        if given[1] == "prefix":
            raise KeyboardInterrupt
        return {"before": 2.0, "after": 1.0}

    monkeypatch.setattr(generation, "in_its_own_process", measured)
    with pytest.raises(KeyboardInterrupt):
        generation.main(["--record", "batches", "prefix"])
    content = json.loads((results / "generation.json").read_text("utf-8"))
    assert [row[0] for row in content["tables"]["measured"][1:]] == ["batches"]


def test_a_part_that_fails_is_named_and_the_others_are_recorded(results, made_up, monkeypatch):
    outcomes = iter([{"error": "ValueError: no"}, {"before": 2.0, "after": 1.0}])
    monkeypatch.setattr(generation, "in_its_own_process", lambda *_, **__: next(outcomes))
    with pytest.raises(SystemExit, match="batches: ValueError: no"):
        generation.main(["--record", "batches", "prefix"])
    assert "prefix" in (results / "generation.json").read_text("utf-8")


def test_of_several_rounds_the_record_has_medians_and_the_page_says_how_ratios_lay(
    results, made_up, monkeypatch
):
    numbers = iter([(2.0, 1.0), (9.0, 3.0), (3.0, 6.0)])  # after, before
    monkeypatch.setattr(
        generation,
        "in_its_own_process",
        lambda *_, **__: dict(zip(("after", "before"), next(numbers), strict=True)),
    )
    generation.main(["--record", "--repetitions", "3", "batches"])
    columns, row = json.loads((results / "generation.json").read_text("utf-8"))["tables"][
        "measured"
    ]
    found = dict(zip(columns, row, strict=True))
    assert (found["seconds"], found["other_seconds"], found["runs"]) == (3, 3, 3)
    assert (found["lowest"], found["highest"]) == (0.5, 3)
    row = "| batches of prompts | 3 | one `model.generate` per prompt | 3 | 1.00 (0.50–3.00) |"
    assert row in benchmark_tables()


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A repository of programs that make builds; the folder into which they are fetched."""
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "Makefile").write_text("all:\n\tmkdir build\n\ttouch build/glove\n")
    own = ("git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@localhost")
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "programs")):
        subprocess.run([*own, *command], check=True)
    head = run_command([*own, "rev-parse", "HEAD"], check=True)
    monkeypatch.setattr(glove, "REPOSITORY", str(repository))
    monkeypatch.setattr(glove, "REVISION", head.stdout.strip())
    return tmp_path / "fetched"


def test_the_authors_programs_are_fetched_and_built_once(programs, monkeypatch):
    assert (glove.built_programs(programs) / "glove").exists()
    monkeypatch.setattr(subprocess, "run", None)
    assert glove.built_programs(programs) == programs / "build"


def test_programs_that_cannot_be_built_are_named_and_nothing_is_left(programs, monkeypatch):
    monkeypatch.setattr(glove, "REVISION", "0" * 40)
    with pytest.raises(SystemExit, match="repository: cannot be fetched with git"):
        glove.built_programs(programs)
    assert [entry.name for entry in programs.parent.iterdir()] == ["repository"]


def test_the_harness_and_the_loops_are_measured_beside_our_own():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=257, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=1,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.generation_config.eos_token_id = None
    for part in ("harness", "texts", "choices"):
        found = generation.PARTS[part](model, generation.byte_tokens(), 1)
        assert found["before"] > 0 and found["after"] > 0
