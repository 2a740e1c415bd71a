"""Training samples on disk: without tests, and for groups those of all members."""

import json

import pytest

from lexigraft.corpus.language import prepare_corpus
from lexigraft.corpus.sample_file import read_samples, read_translations, write_samples
from lexigraft.corpus.training_samples import mix_samples, prepare_samples

SEED = (0, "corpus", "te", "samples", "parallel")
KOLIBRI = {"loader": "catalogue", "package": "kolibri", "locale": "te"}
ENTRY = {"kind": "parallel", "text": KOLIBRI, "pairs": None, "minimum_quality": None}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, kolibri):
    """The corpus of Telugu as the registry's kolibri entries make it."""
    folder = tmp_path_factory.mktemp("corpus")
    sizes = {"heldout": 100, "english": 100}
    settings = {
        "name": "Telugu", "code": "te", "script": "Telu", "text": KOLIBRI, "parallel": KOLIBRI,
        "english": None, "summarization": None, "minimum_characters": 10, "train_sentences": None,
        "translation_pairs": 100, "summarization_pairs": None,
        **{f"{part}_sentences": size for part, size in sizes.items()},
    }  # fmt: skip
    prepare_corpus(settings, folder, ("corpus",), kolibri)
    return folder


def scored(corpus):
    """Both sides of the translation test, and the sentences of the curves."""
    rows = map(json.loads, (corpus / "tasks/translation.jsonl").read_text("utf-8").splitlines())
    texts = {row[side] for row in rows for side in ("source", "target")}
    for part in ("heldout", "english"):
        texts |= set((corpus / f"{part}.txt").read_text("utf-8").splitlines())
    return texts


def test_samples_from_the_text_of_the_tests_contain_none_of_them(corpus, kolibri, tmp_path):
    settings = {"language": "Telugu", **ENTRY}
    files, facts = prepare_samples(settings, corpus, tmp_path, SEED, kolibri)
    assert files == ["samples.jsonl"]
    samples = read_samples(tmp_path / "samples.jsonl")
    answers = {answer.strip() for _, answer in samples}
    assert len(samples) == 2 * facts["pairs"] > 200
    pairs = list(read_translations(tmp_path / "samples.jsonl"))
    assert len(pairs) == facts["pairs"]
    assert {text for pair in pairs for text in pair} == answers
    assert facts["selection"]["like_tests"] >= 100
    assert not answers & scored(corpus)
    assert facts["sizes"]["answers"]["sentences"] == len(samples)


def small_corpus(folder, test):
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks/translation.jsonl").write_text(json.dumps({"source": test, "target": "t"}))
    for name in ("tasks/summarization.jsonl", "heldout.txt", "english.txt"):
        (folder / name).write_text("")
    return folder


def test_a_group_has_its_members_samples_without_the_tests_of_any(tmp_path):
    tests = {"te": "Secret", "el": "x", "en": "y"}
    corpora = {name: small_corpus(tmp_path / name, test) for name, test in tests.items()}
    write_samples(tmp_path / "a", [("Telugu:", " one"), ("Telugu:", " two")])
    write_samples(tmp_path / "b", [("Greek:", " three"), ("Greek:", " secret!")])
    samples = {"te": tmp_path / "a", "el": tmp_path / "b"}
    _, facts = mix_samples(samples, corpora, tmp_path / "group")
    kept = read_samples(tmp_path / "group" / "samples.jsonl")
    assert kept == [("Telugu:", " one"), ("Telugu:", " two"), ("Greek:", " three")]
    assert facts["members"] == {
        "te": {"samples": 2, "like_tests": 0},
        "el": {"samples": 1, "like_tests": 1},
    }


def test_of_other_samples_no_translations_are_read(tmp_path):
    english = "Translate this from English to Telugu:\nEnglish: a: b\nTelugu:"
    samples = [("Question: a\nAnswer:", " b"), (english, " c"), (english[:-1], " d")]
    write_samples(tmp_path, samples)
    assert list(read_translations(tmp_path / "samples.jsonl")) == [("a: b", "c")]
