"""A job is complete if its outputs were made by an equal job from equal inputs, and are whole."""

import itertools
import json
import os
import sys
import time
from pathlib import Path

import pytest

from lexigraft.artifacts import cards
from lexigraft.artifacts.cards import write_card
from lexigraft.artifacts.completion import (
    begin,
    card_of,
    check_contents,
    check_origins,
    complete,
    date_inputs,
    fingerprint,
    input_checksum,
    is_complete,
    output_checksums,
    restore,
)
from lexigraft.errors import UserError
from tests.conftest import REPOSITORY, run_command


@pytest.fixture
def corpus(tmp_path):
    """A folder that an earlier job made."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "train.txt").write_text("one\n")
    write_card(folder, {"rule": "prepare_corpus"}, ["train.txt"])
    return folder


@pytest.fixture
def job(tmp_path, corpus):
    """A job that is complete: it read the corpus and a file of the user's."""
    words = tmp_path / "words.txt"
    words.write_text("a b\n")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "made.txt").write_text("made")
    job = {
        "rule": "make",
        "settings": {"value": 1},
        "seed": [0, "make"],
        "versions": {"stage": 1},
        "inputs": {"corpus": str(corpus), "files": [str(words)], "none": None},
        "outputs": {"folder": str(folder)},
    }
    begun = begin(job)
    write_card(folder, job, ["made.txt"])
    complete(job, begun)
    return job


@pytest.mark.parametrize(
    "change", [{"settings": {"value": 2}}, {"seed": [1]}, {"versions": {"stage": 2}}]
)
def test_another_setting_seed_or_code_makes_it_incomplete(job, change):
    assert not is_complete(job | change)


def test_another_text_makes_it_incomplete(job, corpus):
    (corpus / "train.txt").write_text("two\n")
    write_card(corpus, {"rule": "prepare_corpus"}, ["train.txt"])
    assert not is_complete(job)


def test_the_same_text_made_by_other_code_changes_nothing(job, corpus):
    write_card(corpus, {"rule": "prepare_corpus", "versions": {"stage": 2}}, ["train.txt"])
    assert is_complete(job)


@pytest.mark.fault(
    "damage",
    "a file of finished work is damaged or missing when its job is requested",
    "the work is recomputed",
)
def test_a_file_that_is_damaged_or_gone_makes_it_incomplete(job):
    made = Path(job["outputs"]["folder"], "made.txt")
    made.write_text("nade")
    assert not is_complete(job)
    made.unlink()
    assert not is_complete(job)


def test_where_things_lie_does_not_matter(job, tmp_path):
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("corpus", "out", "words.txt"):
        (tmp_path / name).rename(moved / name)
    assert is_complete(json.loads(json.dumps(job).replace(str(tmp_path), str(moved))))


@pytest.mark.fault("damage", "a card is deleted", "the job restores it and computes nothing")
def test_a_card_that_was_deleted_comes_back_as_it_was(job):
    card = card_of(job)
    before = card.read_bytes()
    card.unlink()
    assert is_complete(job)
    restore(job)
    assert card.read_bytes() == before


@pytest.mark.fault(
    "damage",
    "an input changes while a job that has read it is running",
    "the output does not count as complete and is not stored in a cache",
)
def test_an_input_that_changes_while_a_job_runs_leaves_it_incomplete(job, corpus):
    begun = begin(job)
    (corpus / "train.txt").write_text("two\n")
    write_card(corpus, {"rule": "prepare_corpus"}, ["train.txt"])
    complete(job, begun)
    assert not is_complete(job)


@pytest.mark.fault(
    "machine",
    "the clock was a day ahead when inputs were written, or has been set back since",
    "nothing is recomputed",
)
def test_an_input_from_the_future_is_dated_now(job, corpus):
    """Snakemake discards an output that is older than an input."""
    tomorrow = time.time_ns() + 24 * 3600 * 10**9
    read = (corpus / "card.json", Path(job["inputs"]["files"][0]))
    for file in read:
        os.utime(file, ns=(tomorrow, tomorrow))
    date_inputs(job)
    restore(job)
    assert all(file.stat().st_mtime_ns <= card_of(job).stat().st_mtime_ns for file in read)
    assert is_complete(job)


def test_where_a_source_model_lies_does_not_matter(job, tmp_path):
    """Two users have it in caches of their own; its files are known by their checksums."""
    source = tmp_path / "source"
    source.mkdir()

    def place(model: str, checksum: str) -> str:
        (source / "source.json").write_text(json.dumps({"path": model}))
        files = {"config.json": {"bytes": 2, "sha256": checksum}}
        write_card(source, {"rule": "prepare_source"}, ["source.json"], model_files=files)
        return fingerprint(job | {"inputs": {"source": str(source)}})

    mine = place("/home/me/model", "abc")
    assert place("/home/you/model", "abc") == mine
    assert place("/home/me/model", "def") != mine


def test_a_record_needs_no_card(job):
    folder = job["outputs"]["folder"]
    own = job | {"outputs": {"folder": folder, "card": f"{folder}/card-record.json"}}
    complete(own, begin(own), ["made.txt"])
    assert is_complete(own)
    assert not card_of(own).exists()


@pytest.mark.parametrize("size", [4, cards.SMALL + 1])
def test_a_file_counts_by_its_content_and_not_by_its_date(job, size):
    words = Path(job["inputs"]["files"][0])
    words.write_bytes(b"a" * size)
    date = words.stat().st_mtime_ns
    complete(job, begin(job))
    os.utime(words, ns=(0, 0))
    assert is_complete(job)
    words.write_bytes(b"b" * size)
    os.utime(words, ns=(date, date))
    assert not is_complete(job)


def test_a_pattern_counts_by_the_files_that_match_it(job, tmp_path):
    (tmp_path / "part-1.txt").write_text("one")
    job["inputs"]["files"] = [str(tmp_path / "part-*.txt")]
    complete(job, begin(job))
    assert is_complete(job)
    for name, content in (("part-2.txt", "two"), ("part-1.txt", "six")):
        (tmp_path / name).write_text(content)
        assert not is_complete(job)
        complete(job, begin(job))


@pytest.mark.fault(
    "damage",
    "a file of the user is replaced after a job that reads it was planned",
    "a one-line error message names it; the next run reads the new file",
)
def test_a_file_that_changes_after_a_job_was_planned_is_refused(job, tmp_path):
    (words,) = job["inputs"]["files"]
    job["contents"] = {words: input_checksum(words), str(tmp_path / "gone.txt"): "abc"}
    check_contents(job)
    Path(words).write_text("c d\n")
    with pytest.raises(UserError, match=r"words\.txt: has changed since this job was planned"):
        check_contents(job)


def made(folder: Path, text: str, *inputs: Path, **facts) -> Path:
    """The output of a job that read the outputs of others."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "made.txt").write_text(text)
    write_card(folder, {"rule": "make"}, ["made.txt"], output_checksums(inputs), **facts)
    return folder


@pytest.fixture
def chain(tmp_path) -> list[Path]:
    """Outputs such as a source, a tokenizer and an initialization, each made from those before."""
    folders: list[Path] = []
    for name in ("source", "tokenizer", "initialization", "cell"):
        folders.append(made(tmp_path / name, name, *folders))
    return folders


@pytest.mark.parametrize(("part", "user"), itertools.combinations(range(4), 2))
def test_inputs_of_a_job_that_do_not_belong_together_are_refused(chain, part, user):
    check_origins([str(folder) for folder in chain])
    made(chain[part], "other", *chain[:part])
    for read in (chain[user], chain[user] / "card.json"):
        with pytest.raises(UserError, match=f"{chain[user]}: its input {chain[part]} has"):
            check_origins({"one": str(read), "other": [str(chain[part])]})
    check_origins([str(chain[user])])  # the job does not read the other


def recorded(folder: Path, name: str, text: str, *inputs: Path) -> Path:
    """A record, whose completion record says what it was made from, since it has no card."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    job = {
        "rule": "measure",
        "inputs": [str(path) for path in inputs],
        "outputs": {"folder": str(folder), "card": str(folder / f"card-{name}")},
    }
    complete(job, begin(job), [name])
    return folder / name


def test_records_that_do_not_belong_to_a_cell_are_refused_beside_it(chain, tmp_path):
    """As in a report, which reads the card of a cell, its predictions and their scores."""
    cell, run = chain[-1], tmp_path / "run-0"
    predictions = recorded(run, "predictions.jsonl", "text", cell)
    score = recorded(run / "learned", "comet.json", "0.5", predictions)
    read = [str(cell / "card.json"), str(predictions), str(score)]
    check_origins(read)
    made(cell, "other", *chain[:-1])
    with pytest.raises(UserError, match=f"{run}: its input {cell} has changed"):
        check_origins(read)
    recorded(run, "predictions.jsonl", "other text", cell)
    with pytest.raises(UserError, match=f"{score.parent}: its input {predictions} has changed"):
        check_origins(read)
    recorded(run / "learned", "comet.json", "0.4", predictions)
    check_origins(read)


def test_a_complete_job_ends_before_anything_heavy_is_imported():
    """Every script that Snakemake runs, on a job that is complete."""
    code = (
        "import sys, runpy\n"
        "for script in sys.argv[1:]:\n"
        "    runpy.run_path(script, run_name='imported')\n"
        "heavy = {'torch', 'transformers', 'pandas', 'numpy', 'scipy', 'datasets'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    by_hand = {"cost.py", "status.py", "verify.py"}
    files = sorted((REPOSITORY / "scripts").glob("*.py"))
    scripts = [str(file) for file in files if file.name not in by_hand]
    done = run_command([sys.executable, "-c", code, *scripts], check=True)
    assert done.stdout.strip() == "[]"


def test_a_job_that_begins_again_is_not_complete_until_it_ends(job):
    begin(job)
    assert not is_complete(job)


def test_a_file_below_a_folder_of_the_user_makes_it_incomplete(job, tmp_path):
    deep = tmp_path / "texts/a/b/c.txt"
    deep.parent.mkdir(parents=True)
    deep.write_text("one")
    job["inputs"]["files"] = [str(tmp_path / "texts")]
    complete(job, begin(job))
    assert is_complete(job)
    deep.write_text("two")
    assert not is_complete(job)


def test_two_inputs_that_were_made_from_different_content_of_a_third_are_refused(chain):
    source, tokenizer, initialization, _ = chain
    made(source, "other")
    made(tokenizer, "tokenizer", source)
    with pytest.raises(UserError, match=f"its input {source} has changed since"):
        check_origins([str(tokenizer), str(initialization)])
