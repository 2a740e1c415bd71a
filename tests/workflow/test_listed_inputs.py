"""Every file of the user that a job opens is among its inputs, wherever a config may name one."""

import dataclasses
import json
import os
import shutil
import sys
import tempfile
from contextlib import chdir
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from lexigraft.artifacts import checksums
from lexigraft.artifacts.checksums import files_at
from lexigraft.artifacts.completion import input_checksum, is_complete
from lexigraft.corpus.loaders.datasets import HubRows
from lexigraft.corpus.local_files import FORMATS, local_paths
from lexigraft.corpus.readers import read_rows
from lexigraft.errors import UserError
from tests import preloaded_python
from tests.conftest import run_command
from tests.workflow.conftest import REPOSITORY, finish
from tests.workflow.plan import Plan
from workflow.config.registries import load_registries, resolve
from workflow.jobs import Job, jobs_of
from workflow.state import explain_job, replaced_jobs, states

SOURCE_WIDTH = 32


def save_encoder(folder: Path, tokenizer) -> None:
    """A random BERT with a tokenizer, as a sentence encoder and as a language's own model."""
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    settings = BertConfig(vocab_size=len(tokenizer), intermediate_size=8, **sizes)
    BertModel(settings).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def save_hypernetwork(folder: Path, tokenizer) -> None:
    """A random hypernetwork as ZeTT publishes it, for the tiny source."""
    from safetensors.torch import save_file

    from lexigraft.initialization.hypernetwork import Hypernetwork

    settings = {
        "hn_model_type": "roberta", "hn_embed_using_source_embeddings": True,
        "hn_embed_target_priors": False, "hn_add_inter_token_attention": False,
        "hn_concat_last_hidden_state": False, "hn_rescale_embeddings": True,
        "hn_predict_bias": True, "hn_single_head": False, "hn_embed_lang_id": False,
        "langs": ["en"], "n_langs": 0, "n_embd": SOURCE_WIDTH, "hn_hidden_size": 64,
        "hn_intermediate_size": 8, "hn_n_layers": 1, "hn_surface_maxlen": 4,
        "hn_n_extra_tokens": 3, "original_vocab_size": len(tokenizer), "pad_token_id": 1,
        "separate_out_embeddings": False,
    }  # fmt: skip
    tokenizer.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(settings))
    save_file(Hypernetwork(settings).state_dict(), folder / "model.safetensors")


@pytest.fixture(scope="module")
def project(tmp_path_factory, miniature, word_files, texts, smollm2_folder_tiny, smollm2_cut,
            roberta_folder, byte_tokenizer) -> Path:  # fmt: skip
    """A folder with a study whose inputs are all local, by paths relative to it."""
    folder = tmp_path_factory.mktemp("listed") / "project"
    shutil.copytree(texts, folder / "texts")
    for name in word_files.values():
        shutil.copy(name, folder / "texts")
    shutil.copytree(smollm2_folder_tiny, folder / "source")
    shutil.copytree(roberta_folder, folder / "masked")
    encoder_tokenizer = byte_tokenizer()
    encoder_tokenizer.add_special_tokens({"pad_token": "<end>"})
    save_encoder(folder / "encoder", encoder_tokenizer)
    save_encoder(folder / "plm", byte_tokenizer(("a", "b")))
    byte_tokenizer(("c", "d")).save_pretrained(folder / "taken")
    byte_tokenizer(("e", "f")).save_pretrained(folder / "compared")
    save_hypernetwork(folder / "hypernetwork", smollm2_cut)
    rows = [{"text": line} for line in (texts / "greek.txt").read_text().splitlines()[:40]]
    (folder / "rows/deep").mkdir(parents=True)
    (folder / "rows/deep/rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    example = {"a": "one", "b": "two", "y": 0}
    (folder / "texts/examples.jsonl").write_text(json.dumps(example) + "\n")
    (folder / "metric/checkpoints").mkdir(parents=True)
    for name in ("hparams.yaml", "checkpoints/model.ckpt"):
        (folder / "metric" / name).write_text("{}")

    config = deepcopy(miniature)
    config["sources"] = {
        "tiny": {"folder": "source"},
        "masked": {"folder": "masked", "kind": "masked"},
    }
    telugu = config["languages"]["telugu"]
    telugu |= {key: f"texts/{Path(path).name}" for key, path in word_files.items()}
    telugu |= {
        "text": {"loader": "datasets", "name": "text", "data_files": "texts/telug*.txt",
                 "split": "train"},
        "parallel": {"loader": "tsv", "path": "texts/telugu.tsv"},
        "english": {"loader": "datasets", "name": "rows", "split": "train", "column": "text",
                    "data_files": "deep/*.jsonl"},
        "plms": {"own": {"model": "./plm"}},
        "samples": {"pairs": {"pairs": 10, "kind": "parallel", "text": {"loader": "tsv",
                                                           "path": "texts/greek.tsv"}}},
    }  # fmt: skip
    config["languages"] = {"telugu": telugu}
    config["vocabularies"] = {
        "taken": {"mode": "replace", "tokenizer": "./taken"},
        "of-plm": {"mode": "replace", "plm": "own"},
    }
    config["auxiliary"] = {
        "plm": {"kind": "plm", "plm": "own"},
        "encoder": {"kind": "sentence-encoder", "folder": "encoder"},
        "words": {"kind": "word-vectors", "path": "texts/en.vec", "unlisted_words": False},
        "english": {"base": "english-word-vectors", "unlisted_words": False},
        "aligned": {"base": "aligned-word-vectors", "unlisted_words": False},
    }
    config["initializers"] = {
        "small-omp": {"base": "omp", "auxiliary": {"plm": "plm"}},
        "small-tokenadapt": {
            "base": "tokenadapt", "auxiliary": {"target": "encoder", "source": "encoder"}
        },
        "small-focus": {"base": "focus-word", "auxiliary": "words"},
        "small-wechsel": {
            "base": "wechsel", "auxiliary": {"target": "aligned", "source": "english"}
        },
        "small-zett": {"method": "zett", "options": {"hypernetwork": "./hypernetwork"}},
        "small-pairs": {"base": "transtokenizers", "samples": "pairs"},
    }  # fmt: skip
    block = {"sources": ["tiny"], "languages": ["telugu"], "strategies": ["none"], "seeds": [0]}
    names = [name for name in config["initializers"] if name != "small-omp"]
    config["cells"] = [
        {
            **block,
            "sources": ["tiny", "masked"],
            "vocabularies": ["source"],
            "initializers": ["none"],
        },
        {**block, "vocabularies": ["expand-50"], "initializers": names},
        {**block, "vocabularies": ["taken"], "initializers": ["small-zett"]},
        {**block, "vocabularies": ["of-plm"], "initializers": ["small-omp"]},
    ]
    config["tokenizers"] = {"mine": {"folder": "compared"}}
    config["fragmentation"] = {"languages": ["telugu"], "tokenizers": ["mine"]}
    config["alignment"] = {"sentences": 5, "encoder": {"folder": "encoder"}}
    config["tasks"] = {
        "own": {"base": "translation", "samples": 1, "max_new_tokens": 2, "examples": {
            "test": [{"loader": "tsv", "path": "texts/greek.tsv", "languages": ["te"]}]}},
        "nli": {"kind": "classification", "examples": {
            "labels": ["no", "yes"],
            "columns": {"first": "a", "second": "b", "label": "y"},
            "train": {"loader": "jsonl", "path": "texts/examples.jsonl"},
            "test": [{"loader": "datasets", "name": "json", "split": "train",
                      "data_files": ["texts/exampl*.jsonl"], "languages": ["te"]}]}},
    }  # fmt: skip
    config["metrics"] = {
        "mine": {"base": "comet-22", "checkpoint": "./metric", "encoder": "./metric"}
    }
    config["run_tasks"] = {
        "perplexity": {"sources": ["tiny"]},
        "own": {"sources": ["tiny"], "learned_metrics": ["mine"]},
        "nli": {"sources": ["masked"]},
    }
    config["report"] = {"items": ["results", "alignment", "fragmentation"], "fonts": None}
    (folder / "study.yaml").write_text(yaml.safe_dump(config, allow_unicode=True))
    return folder


@pytest.fixture(scope="module")
def jobs(project) -> dict:
    """Card of each job -> the files that it opened and those of its description."""
    script = str(REPOSITORY / "tests/workflow/opened_files.py")
    done = run_command([preloaded_python.python(), script, "study.yaml"], cwd=project)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Python and its packages, this project, the system, and caches of libraries.
ELSEWHERE = (
    REPOSITORY, Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix),
    "/dev", "/etc", "/lib", "/proc", "/sys", "/usr", Path.home() / ".cache",
    os.environ.get("XDG_CACHE_HOME", "/proc"), os.environ.get("HF_HOME", "/proc"),
)  # fmt: skip


def is_below(path: str, *folders: str | Path) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def test_every_file_that_a_job_opens_is_among_its_inputs(jobs, project):
    missing = {}
    for card, job in jobs.items():
        for path in job["opened"]:
            inside = is_below(path, project)
            temporary = not inside and is_below(path, tempfile.gettempdir())
            # What `shutil` deletes is opened by a name without its folder.
            if (
                temporary
                or not Path(path).exists()
                or is_below(path, project / "results", *ELSEWHERE)
            ):
                continue
            if not is_below(path, *job["listed"]):
                missing.setdefault(card, []).append(path)
    assert missing == {}


@pytest.fixture(scope="module")
def planned(project) -> dict[str, Job]:
    """The jobs of the study, planned in its folder."""
    with chdir(project):
        return jobs_of("study.yaml")


@pytest.fixture
def finished(project, planned, tmp_path, monkeypatch) -> dict[str, Job]:
    """The jobs of a copy of the study, all done."""
    folder = shutil.copytree(project, tmp_path / "project", ignore=lambda *_: ["results"])
    monkeypatch.chdir(folder)
    for job in planned.values():
        finish(job)
    return planned


def planned_again(jobs: dict[str, Job]) -> dict[str, Job]:
    """The same jobs with the checksums that a plan would compute for the user's files."""
    again = {}
    for card, job in jobs.items():
        contents = {
            path: input_checksum(path) if files_at(path) else checksum
            for path, checksum in job.description.get("contents", {}).items()
        }
        again[card] = dataclasses.replace(job, description=job.description | {"contents": contents})
    return again


def state_names(jobs: dict[str, Job]) -> set[str]:
    return {state.name for state in states(jobs).values()}


def replace(path: Path, by: bytes, date: int) -> None:
    """Another file takes the place of one, as `mv`, `rsync -t` or an archive puts it there."""
    other = path.with_name("other")
    other.write_bytes(by)
    os.utime(other, ns=(date, date))
    other.replace(path)


@pytest.mark.fault(
    "damage",
    "a text or a model that finished work was made from is replaced by another one of the same "
    "size and date",
    "whatever was made from it is stale, and is made again",
)
def test_a_file_replaced_by_one_of_the_same_size_and_date_makes_its_jobs_stale(finished):
    """Wherever a config may name a file or a folder: status, plan and completion agree."""
    study = resolve(yaml.safe_load(Path("study.yaml").read_text()), load_registries())
    assert state_names(finished) == {"done"}
    readers: dict[Path, list[str]] = {}
    for card, job in finished.items():
        for path in map(Path, job.description.get("contents", ())):
            if not path.is_absolute():  # prompts are in the repository
                deepest = files_at(path)[-1]
                readers.setdefault(deepest, []).append(card)
    assert len(readers) > 12
    for path, cards in readers.items():
        before, date = path.read_bytes(), path.stat().st_mtime_ns
        replace(path, bytes([before[0] ^ 1]) + before[1:], date)
        jobs = planned_again(finished)
        found = states(jobs)
        for card in cards:
            assert found[card].name == "stale", (card, path)
            assert not is_complete(jobs[card].description)
            assert "whose content has changed" in explain_job(study, jobs, card)
        assert {card for card in cards if jobs[card].memory_mb} <= replaced_jobs(jobs).keys()
        replace(path, before, date)
        os.utime(path)  # the same content with another date
        assert state_names(planned_again(finished)) == {"done"}, path


def test_files_that_are_gone_leave_what_was_made_of_them_as_it_is(finished):
    folders = ("compared", "encoder", "hypernetwork", "masked", "plm", "source", "taken", "texts")
    for place in folders:
        Path(place).rename(f"{place}-away")
    assert state_names(jobs_of("study.yaml")) == {"done"}


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ({"name": "text", "data_files": "a.txt"}, ["a.txt"]),
        ({"name": "json", "data_files": ["a.jsonl", "zip://b.json::b.zip"]}, ["a.jsonl", "b.zip"]),
        ({"name": "csv", "data_files": "hf://datasets/org/name@main/a.csv"}, []),
        ({"name": "parquet", "data_files": "https://example.org/a.parquet"}, []),
        ({"name": "text", "data_files": "none/*.txt"}, ["none/*.txt"]),
        ({"name": "./rows", "data_files": "a.jsonl"}, ["./rows"]),
        ({"name": "org/name", "data_files": "a.jsonl"}, []),
    ],
)
def test_data_sets_name_local_files_in_many_ways(text, files):
    assert local_paths({"text": {"loader": "datasets", **text}}) == files


def test_what_no_job_reads_of_the_user_s_folders_changes_nothing(finished):
    """Models that are still trained, notes next to texts, code that Python compiles."""
    for folder in ("compared", "encoder", "hypernetwork", "masked", "plm", "source", "taken"):
        Path(folder, "checkpoint-10").mkdir()
        for name in ("train.log", "notes.md", "checkpoint-10/model.safetensors", "optimizer.pt"):
            Path(folder, name).write_text("more")
    Path("rows/__pycache__").mkdir()
    Path("rows/__pycache__/rows.pyc").write_text("compiled")
    Path("texts/README.md").write_text("notes")
    assert state_names(planned_again(finished)) == {"done"}
    Path("plm/added.json").write_text("{}")
    assert "stale" in state_names(planned_again(finished))


def test_files_that_many_jobs_read_are_looked_up_once(finished, monkeypatch):
    monkeypatch.setattr(checksums, "_SETTLED", -1)
    looked_up = []

    def count(path):
        looked_up.append(path)
        return input_checksum(path)

    monkeypatch.setattr("workflow.inputs.rule.input_checksum", count)
    Plan(yaml.safe_load(Path("study.yaml").read_text())).jobs()
    files = [path for path in looked_up if Path(path).is_file()]
    assert len(files) > 5
    assert len(files) == len({*files})


def test_every_format_of_the_library_datasets_is_listed_or_refused():
    from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES

    for name in _PACKAGED_DATASETS_MODULES:
        text = {"loader": "datasets", "name": name, "data_files": "a.x", "split": "train"}
        if name in FORMATS:
            assert local_paths({"text": text}) == ["a.x"]
            continue
        with pytest.raises(ValueError, match=f"'{name}' is a format that is not read"):
            HubRows(**text)
        with pytest.raises(UserError, match=f"'{name}' is a format that is not read"):
            list(read_rows(text))
