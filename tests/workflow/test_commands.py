"""Commands over studies: what they tell Snakemake, and which cell a name means."""

import json
import os
from pathlib import Path

import pytest
import yaml

from lexigraft.artifacts.cards import write_card
from lexigraft.commands.app import main
from lexigraft.errors import UserError
from lexigraft.installation import PIPELINE
from lexigraft.settings import validate
from workflow.commands.init import new_study
from workflow.commands.running import (
    machine_options,
    snakemake_command,
    snakemake_environment,
    with_profile_path,
)
from workflow.commands.studies import cell_named
from workflow.config.registries import resolve
from workflow.config.study import StudyConfig


@pytest.fixture
def study(miniature, tmp_path, registries):
    return resolve(miniature | {"results": str(tmp_path / "results")}, registries)


# ---- what Snakemake is told ---------------------------------------------------------------------


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)


def options(*arguments: str) -> dict[str, list[str]]:
    """Option -> values, of what is said of this machine."""
    found: dict[str, list[str]] = {}
    for word in machine_options(arguments):
        if word.startswith("--"):
            found[word] = values = []
        else:
            values.append(word)
    return found


def test_a_run_takes_the_cores_the_memory_and_the_gpus_of_the_machine(no_gpu, monkeypatch):
    assert options()["--cores"] == [str(len(os.sched_getaffinity(0)))]
    memory, gpus = options()["--resources"]
    megabytes = int(memory.removeprefix("mem_mb="))
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0.79 < megabytes * 2**20 / pages <= 0.8
    assert gpus == "gpu=0"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    assert options()["--resources"][1] == "gpu=2"


@pytest.mark.parametrize(
    ("given", "left_out"),
    [
        (["--cores", "4"], "--cores"),
        (["-c4"], "--cores"),
        (["--cores=4"], "--cores"),
        (["-j", "4"], "--cores"),
        (["--resources", "gpu=1"], "--resources"),
        (["--quiet"], "--quiet"),
    ],
)
def test_what_the_user_says_is_not_said_again(no_gpu, given, left_out):
    assert options().keys() - options(*given).keys() == {left_out}


def test_targets_are_not_taken_for_values_of_an_option(no_gpu):
    """Snakemake's own parser reads the command."""
    from snakemake.cli import parse_args

    for more in ((), ("--profile", str(PIPELINE / "profiles/slurm"))):
        command = snakemake_command("mine.yaml", ["all", *more])
        _, read = parse_args(command[command.index("snakemake") + 1 :])
        assert read.targets == ["all"]
        assert [Path(file).name for file in read.configfile] == ["mine.yaml"]
        assert Path(read.snakefile) == PIPELINE / "Snakefile"


@pytest.mark.fault(
    "disk",
    "a Snakemake cache that the user cannot write to",
    "Snakemake uses a cache in the working folder",
)
def test_snakemake_has_a_cache_where_that_of_the_user_is_read_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given, used in (("mine", "mine"), ("/proc/none", ".snakemake/cache")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / given))
        assert snakemake_environment()["XDG_CACHE_HOME"] == str(tmp_path / used)


def test_the_profile_is_the_users_own_where_there_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    carried = str(PIPELINE / "profiles/slurm")
    assert with_profile_path(["--profile", "slurm", "-n"]) == ["--profile", carried, "-n"]
    assert with_profile_path(["--profile=slurm"]) == [f"--profile={carried}"]
    assert with_profile_path(["--profile", "other"]) == ["--profile", "other"]
    assert with_profile_path(["--profile", "my/slurm"]) == ["--profile", "my/slurm"]
    (tmp_path / "profiles/slurm").mkdir(parents=True)
    assert with_profile_path(["--profile", "slurm"]) == ["--profile", "profiles/slurm"]
    (tmp_path / "slurm").mkdir()
    assert with_profile_path(["--profile", "slurm"]) == ["--profile", "slurm"]


@pytest.mark.bad_input(
    "command", "a study file that does not exist", "a one-line error message says how to create one"
)
@pytest.mark.parametrize("command", ["run", "plan", "status", "cost", "verify", "explain"])
def test_a_study_that_is_not_there_is_one_line(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main([command, "my-study.yaml"])
    assert end.value.code == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "lexigraft init my-study.yaml" in said


@pytest.mark.parametrize("command", ["status", "verify"])
def test_a_study_without_results_is_one_line(command, miniature, capsys, tmp_path):
    file, results = tmp_path / "study.yaml", tmp_path / "results"
    (tmp_path / "packages").mkdir()
    places = {"results": str(results), "packages_folder": str(tmp_path / "packages")}
    file.write_text(yaml.safe_dump(miniature | places, allow_unicode=True))
    with pytest.raises(SystemExit) as end:
        main([command, str(file)])
    assert end.value.code == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"error: {results}: no results yet; run `lexigraft run {file}`\n"
    assert not results.exists()


# ---- which cell is meant ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "telugu/align",
        "align/telugu/expand-50",
        "tiny/telugu/expand-50/align/short/seed-0",
        "{results}/training/tiny/telugu/expand-50/align/short/seed-0/card.json",
        "./{results}/evaluation/tiny/telugu/expand-50/align/short/seed-0",
    ],
)
def test_a_cell_is_named_by_names_or_by_a_path(study, text):
    cell = cell_named(study, text.format(results=study.results))
    assert cell.path == "tiny/telugu/expand-50/align/short/seed-0"


@pytest.mark.bad_input(
    "command",
    "names that match no cell, or several cells",
    "a one-line error message lists the cells or suggests a similar name",
)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alig/telugu", "no cell has 'alig'; did you mean 'align'?"),
        ("align", "2 cells have these names; choose one of tiny/telugu/.*, tiny/greek/"),
        ("greek/multivariate", "no cell of the study has all of these names"),
        ("", "does not name a cell; choose one of tiny/"),
        ("recommended", "no cell is recommended; run the study first"),
    ],
)
def test_a_name_that_means_no_cell_or_several_is_an_error(study, text, said):
    with pytest.raises(UserError, match=said):
        cell_named(study, text)


def test_of_cells_that_differ_in_their_seeds_the_first_is_meant(miniature, tmp_path, registries):
    block = miniature["cells"][1] | {"seeds": [2, 1]}
    study = resolve(miniature | {"cells": [block]}, registries)
    assert cell_named(study, "align").seed == 1
    assert cell_named(study, "align/seed-2").seed == 2


def test_the_recommended_cell_is_that_of_the_report(study):
    def row(language: str) -> dict:
        model = {"source": "tiny", "vocabulary": "expand-50", "strategy": "short"}
        measured = model | {"initializer": "align"}
        return {"language": language, **model, "initializer": "mean", "measured": measured}

    file = Path(study.folder("build_report"), "summary.json")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"recommendations": [row("greek"), row("telugu")]}))
    assert cell_named(study, "recommended/greek").path == "tiny/greek/expand-50/align/short/seed-0"
    with pytest.raises(UserError, match="2 cells have these names"):
        cell_named(study, "recommended")
    file.write_text(json.dumps({"recommendations": [row("german")]}))
    with pytest.raises(UserError, match="recommends no cell of this study"):
        cell_named(study, "recommended")


@pytest.mark.parametrize(
    ("to", "options", "message"),
    [
        (".", [], "contains files that were not written by an export"),
        ("out", ["--gguf"], "-m pip install --no-deps --target"),
        ("out", ["--gguf", "--delta"], "a GGUF file needs the whole model; give only one"),
    ],
)
def test_an_export_that_is_not_possible_trains_nothing(
    to, options, message, miniature, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("lexigraft.training.llama_cpp.LLAMA_CPP", tmp_path / "not installed")
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(miniature | {"results": str(tmp_path / "results")}))
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(SystemExit) as end:
        main(["export", str(file), "telugu/align", "--to", str(tmp_path / to), *options])
    assert end.value.code == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


# ---- a study to begin with ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "source"),
    [("smollm2-135m", "smollm2-135m"), ("a-b/My.Model-1B", "My.Model-1B"), ("./m/gpt 2", "gpt-2")],
)
def test_a_new_study_is_valid_and_has_a_baseline_and_lapt(registries, model, source):
    content = yaml.safe_load(new_study("my study.yaml", model, "ka", "my data/ka'1.txt"))
    assert validate(StudyConfig, content, "config").study == "my-study"
    study = resolve(content, registries).config
    assert {name for block in study["cells"] for name in block["sources"]} == {source}
    assert study["languages"]["my-ka"]["text"]["paths"] == ["my data/ka'1.txt"]
    kinds = [(*block["vocabularies"], *block["strategies"]) for block in study["cells"]]
    assert kinds == [("source", "none"), ("source", "short"), ("expand-500", "short")]


def test_a_new_study_reads_no_sequences_that_are_too_long_for_the_model(registries, tmp_path):
    def study(model):
        return resolve(yaml.safe_load(new_study("s.yaml", model, "ka", "t.txt")), registries)

    short = study("stories15m").strategies["short"]
    assert [phase.length for phase in short.phases] == [256]
    published = study("smollm2-135m").strategies["short"]
    assert published.phases[0].model_copy(update={"length": 256}) == short.phases[0]
    (tmp_path / "config.json").write_text('{"text_config": {"max_position_embeddings": 64}}')
    assert study(str(tmp_path)).strategies["short"].phases[0].length == 64
    content = yaml.safe_load(new_study("s.yaml", str(tmp_path), "ka", "t.txt"))
    del content["strategies"]["short"]["phases"]
    with pytest.raises(
        UserError, match=r"^strategies\.short\.phases\[0\]\.length: 512 tokens.* 64"
    ):
        resolve(content, registries)


def test_a_new_study_has_the_words_that_it_was_given_whatever_yaml_makes_of_them(registries):
    """To YAML `no`, the code of Norwegian, is false, and 2024 is a number."""
    content = yaml.safe_load(new_study("2024.yaml", "./7", "no", "2024"))
    validate(StudyConfig, content, "config")
    study = resolve(content, registries).config
    assert (study["study"], study["title"]) == ("2024", "no for 7")
    assert study["sources"]["7"]["folder"] == "./7"
    language = study["languages"]["my-no"]
    assert (language["code"], language["name"]) == ("no", "no")
    assert language["text"]["paths"] == ["2024"]


@pytest.mark.bad_input(
    "command",
    "an invalid language, model or text for `init`",
    "a one-line error message; no study is written",
)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--language", "Telugu"], "is not an ISO 639 code"),
        (["--model", "no-such-model"], "neither a folder nor a name on the Hugging Face hub"),
        (["--text", "latin1.txt"], "is not UTF-8"),
        (["--text", "short.txt"], "at least 20 are needed"),
    ],
)
def test_what_cannot_become_a_study_is_one_line(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    Path("latin1.txt").write_bytes("é\n".encode("latin1"))
    Path("short.txt").write_text("one\n" * 50)
    with pytest.raises(SystemExit) as end:
        main(["init", "study.yaml", *arguments])
    shown = capsys.readouterr().err
    assert end.value.code == 1
    assert said in shown
    assert shown.count("\n") == 1
    assert not Path("study.yaml").exists()


def test_init_overwrites_nothing_and_brings_a_profile(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("texts").mkdir()
    with pytest.raises(SystemExit):
        main(["init", "folder.yaml", "--text", "texts"])
    assert "Put your text" not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["init", "study.yaml", "--slurm"])
    profile = Path("profiles/slurm/config.yaml").read_text("utf-8")
    assert profile == (PIPELINE / "profiles/slurm/config.yaml").read_text("utf-8")
    assert "data/te.txt" in capsys.readouterr().out
    for arguments in (["study.yaml"], ["other.yaml", "--slurm"]):
        with pytest.raises(SystemExit) as end:
            main(["init", *arguments])
        assert end.value.code == 1
    assert not Path("other.yaml").exists()
    Path("profiles/slurm/config.yaml").unlink()
    with pytest.raises(SystemExit) as end:
        main(["init", "other.yaml", "--slurm"])
    assert end.value.code in (None, 0)
    assert Path("profiles/slurm/config.yaml").is_file()


# ---- verification -------------------------------------------------------------------------------


def test_verify_reads_the_results_of_the_study(miniature, tmp_path, capsys):
    file, folder = tmp_path / "study.yaml", tmp_path / "results/source/tiny"
    file.write_text(yaml.safe_dump(miniature | {"results": str(tmp_path / "results")}))
    folder.mkdir(parents=True)
    (folder / "weights.bin").write_text("weights")
    write_card(folder, {"rule": "prepare_source", "inputs": {}, "outputs": {}}, ["weights.bin"])
    for content, code, message in (
        ("weights", 0, "0 damaged or missing"),
        ("other", 1, f"{folder}/weights.bin: has 5 bytes instead of 7"),
    ):
        (folder / "weights.bin").write_text(content)
        with pytest.raises(SystemExit) as end:
            main(["verify", str(file)])
        assert (end.value.code or 0) == code
        assert message in capsys.readouterr().out
