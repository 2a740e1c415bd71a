"""The corpus of a language from its settings: readers, missing files, the real catalogue."""

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.corpus.cleaning import clean
from lexigraft.corpus.contamination import CONTAINED, PIECE, Contamination, letters
from lexigraft.corpus.language import prepare_corpus
from lexigraft.corpus.local_files import check_files
from lexigraft.errors import UserError
from lexigraft.installation import ROOT
from tests.conftest import run_command
from tests.corpus.text_files import write, write_json_lines

FILES = [
    "train.txt", "heldout.txt", "english.txt", "tasks/translation.jsonl",
    "tasks/summarization.jsonl",
]  # fmt: skip
CATALOGUE = {"loader": "catalogue", "package": "kolibri", "locale": "te"}


def language(**changes):
    settings = {
        "name": "Telugu", "code": "te", "script": "Telu", "text": CATALOGUE,
        "parallel": CATALOGUE, "english": None, "train_sentences": None,
        "heldout_sentences": 100, "english_sentences": 100, "translation_pairs": 100,
        "summarization_pairs": None, "minimum_characters": 10,
    }  # fmt: skip
    return {**settings, **changes}


def small(**changes):
    sizes = {"heldout_sentences": 2, "english_sentences": 2, "translation_pairs": 2}
    return language(**{**sizes, "minimum_characters": 1, "parallel": None, **changes})


@pytest.fixture
def files(tmp_path):
    """Ten short texts and their English, plain with Windows line ends, as pairs and as rows."""
    target = [f"వాక్యం {letter}" for letter in "కఖగఘచఛజఝటఠ"]
    english = [f"This is sentence {letter}" for letter in "abcdefghij"]
    rows = [{"en": e, "te": t} for e, t in zip(english, target, strict=True)]
    write(tmp_path, "te.txt", "".join(f"{line}\r\n" for line in target))
    write(tmp_path, "en.txt", "".join(f"{line}\r\n" for line in english))
    write(tmp_path, "pairs.tsv", "".join(f"{row['en']}\t{row['te']}\n" for row in rows))
    write_json_lines(tmp_path, "pairs.jsonl", rows)
    return tmp_path


def lines_of(file):
    return Path(file).read_bytes().decode().split("\n")[:-1]


def test_the_script_writes_the_real_telugu_corpus(kolibri, tmp_path):
    job = {
        "rule": "prepare_corpus",
        "settings": language(),
        "inputs": {"package": str(kolibri)},
        "outputs": {"folder": str(tmp_path)},
        "seed": ["0", "corpus", "te"],
    }
    done = run_command(
        [sys.executable, "scripts/prepare_corpus.py", json.dumps(job)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    train, heldout, english = (
        lines_of(tmp_path / f"{part}.txt") for part in ("train", "heldout", "english")
    )
    tasks = [json.loads(line) for line in lines_of(tmp_path / "tasks" / "translation.jsonl")]
    assert len(train) > 1000
    assert len(heldout) == len(english) == len(tasks) == 100
    assert clean(train + heldout)[0] == train + heldout
    assert not {task["target"] for task in tasks} & set(train + heldout)
    assert tasks[0].keys() == {"id", "source", "target"}
    assert len({task["id"] for task in tasks}) == 100
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["sizes"]["train"] == {
        "sentences": len(train),
        "characters": sum(map(len, train)),
        "bytes": (tmp_path / "train.txt").stat().st_size - len(train),
    }
    assert list(card["files"]) == sorted(FILES)
    assert lines_of(tmp_path / "tasks" / "summarization.jsonl") == []


def test_a_corpus_of_several_formats_has_each_text_in_one_part(files, tmp_path, monkeypatch):
    monkeypatch.chdir(files)
    fields = {"source_field": "en", "target_field": "te"}
    settings = small(
        text={"loader": "jsonl", "path": "pairs.jsonl", "field": "te"},
        english={"loader": "text", "paths": ["en.txt"]},
        parallel={"loader": "tsv", "path": "pairs.tsv"},
        summarization={"loader": "jsonl", "path": "pairs.jsonl", **fields},
        summarization_pairs=2,
    )
    written, facts = prepare_corpus(settings, tmp_path / "out", ("0",))
    assert written == FILES
    train, heldout, english = (
        lines_of(tmp_path / "out" / f"{part}.txt") for part in ("train", "heldout", "english")
    )
    translation, summarization = (
        [json.loads(line) for line in lines_of(tmp_path / "out/tasks" / f"{task}.jsonl")]
        for task in ("translation", "summarization")
    )
    tested = {row["target"] for row in translation} | {row["reference"] for row in summarization}
    assert sorted([*train, *heldout, *tested]) == [f"వాక్యం {letter}" for letter in "కఖగఘచఛజఝటఠ"]
    assert all(line.startswith("This is sentence") for line in english)
    assert [row["id"] for row in summarization] == ["te-0001", "te-0002"]
    assert facts["cleaning"]["english"]["windows_line_ends"] == 10
    assert facts["cleaning"]["summarization"]["kept"] == 10
    assert facts["sizes"]["summaries"]["sentences"] == 2


@pytest.mark.bad_input(
    "config",
    "a text file that does not exist",
    "rejected before the first job, with a message that names the key and the file",
)
@pytest.mark.parametrize(
    ("part", "settings", "key"),
    [
        ("text", {"loader": "parquet", "path": "gone", "column": "x"}, r"text\.path: gone"),
        ("text", {"loader": "text", "paths": ["te.txt", "gone"]}, r"text\.paths: gone"),
        ("english", {"loader": "jsonl", "path": "gone", "field": "x"}, r"english\.path: gone"),
        (
            "summarization",
            {"loader": "files", "source": "en.txt", "target": "gone"},
            r"summarization\.target: gone",
        ),
        (
            "parallel",
            {"loader": "files", "source": "en.txt", "target": "gone"},
            r"parallel\.target",
        ),
    ],
)
def test_a_missing_file_is_named_with_its_key_before_any_job(
    part, settings, key, files, monkeypatch
):
    monkeypatch.chdir(files)
    with pytest.raises(UserError, match=rf"languages\.te\.{key}.*: there is no such file"):
        check_files(language(**{part: settings}), "languages.te")


@pytest.mark.bad_input(
    "text",
    "an empty file, a file of blank lines, a Parquet file without rows",
    "a one-line error message names the file",
)
def test_an_empty_file_is_named_with_its_key(tmp_path):
    (tmp_path / "te.txt").write_bytes(b"")
    with pytest.raises(UserError, match=r"text\.paths: .*te\.txt: the file is empty"):
        check_files(language(text={"loader": "text", "paths": [str(tmp_path / "te.txt")]}), "x")


def facts(sets, sentences):
    contamination = Contamination(sets)
    for sentence in sentences:
        contamination.add(sentence)
    return contamination.facts()


words = st.sampled_from(["ఇల్లు", "తోట", "Σπίτι", "house", "garden", "AB", "1", "?"])
sentence = st.lists(words, min_size=1, max_size=30).map(" ".join)


@given(st.lists(sentence, max_size=5), st.lists(sentence, max_size=5))
def test_what_is_found_is_what_plain_searches_find(tests, sentences):
    keys, texts = {letters(test) for test in tests}, [letters(text) for text in sentences]

    def holds(text, key):
        return key == text or (len(key) >= CONTAINED and key in text)

    def known(key):
        runs = [key[at : at + PIECE] for at in range(0, len(key) - PIECE + 1, 10)]
        hits = sum(any(run in text for text in texts) for run in runs)
        return bool(runs) and hits >= 0.7 * len(runs)

    assert facts({"test": tests}, sentences)["test"] == {
        "texts": len(keys),
        "found": sum(any(holds(text, key) for text in texts) for key in keys),
        "mostly_found": sum(map(known, keys)),
        "training_sentences": sum(any(holds(text, key) for key in keys) for text in texts),
    }


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Chapter 1", "chapter 27!", True),
        ("a b", "ab", True),
        ("Straße", "STRASSE", True),
        ("క్విజ్\u200cను", "క్విజ్ను", True),
        ("కి", "కు", False),  # vowel signs are marks, and make another word
        ("Öl", "Ol", False),
        ("12", "13", False),
    ],
)
def test_sentences_are_compared_by_their_letters(one, other, same):
    assert (letters(one) == letters(other)) == same


def test_a_translation_test_of_earlier_settings_is_removed(files, tmp_path):
    text = {"loader": "text", "paths": [str(files / "te.txt")]}
    english = {"loader": "text", "paths": [str(files / "en.txt")]}
    parallel = {"loader": "tsv", "path": str(files / "pairs.tsv")}
    prepare_corpus(small(text=text, parallel=parallel), tmp_path / "out", ("0",))
    prepare_corpus(small(text=text, english=english), tmp_path / "out", ("0",))
    assert lines_of(tmp_path / "out" / "tasks" / "translation.jsonl") == []
