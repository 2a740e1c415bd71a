"""Training samples on disk: without tests, and for groups those of all members."""

import json

import pytest

from lexigraft.corpus.contamination import Overlap
from lexigraft.corpus.language import prepare_corpus
from lexigraft.corpus.sample_file import read_samples, read_translations, write_samples
from lexigraft.corpus.training_samples import (
    joined,
    mix_samples,
    prepare_samples,
    questions,
    translations,
)
from lexigraft.errors import UserError
from lexigraft.yaml_files import read_yaml
from tests.conftest import REPOSITORY

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


PAIRS_SEED = (0, "corpus", "te", "samples", "parallel")
PAIRS = [("One house", "ఒక ఇల్లు"), ("Two dogs", "రెండు కుక్కలు"), ("Three cats", "మూడు పిల్లులు")]
NO_TESTS = Overlap([])


def from_pairs(text, pairs=None, minimum_quality=None):
    return {
        "language": "Telugu",
        "text": text,
        "pairs": pairs,
        "minimum_quality": minimum_quality,
    }


def tsv(folder, rows, **keys):
    file = folder / "pairs.tsv"
    file.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), "utf-8")
    return {"loader": "tsv", "path": str(file), **keys}


def english_of(samples):
    """The English sides of the pairs behind samples, in their order."""
    return [answer[1:] for prompt, answer in samples if prompt.endswith("English:")]


def test_each_pair_gives_both_directions_with_the_prompt_of_alma(tmp_path):
    samples, facts = translations(from_pairs(tsv(tmp_path, PAIRS[:1])), PAIRS_SEED, NO_TESTS)
    assert samples == [
        ("Translate this from English to Telugu:\nEnglish: One house\nTelugu:", " ఒక ఇల్లు"),
        ("Translate this from Telugu to English:\nTelugu: ఒక ఇల్లు\nEnglish:", " One house"),
    ]
    assert facts["pairs"] == 1


def test_the_best_pairs_are_selected_regardless_of_their_order(tmp_path):
    rows = [(f"Sentence {n}", f"వాక్యం {n}", (7 * n) % 50) for n in range(50)]
    text = tsv(tmp_path, rows, quality_column=3)
    samples, _ = translations(from_pairs(text, pairs=5), PAIRS_SEED, NO_TESTS)
    best = sorted(rows, key=lambda row: -row[2])[:5]
    assert english_of(samples) == [row[0] for row in best]


def test_without_a_quality_the_draw_is_random_and_seeded(tmp_path):
    text = tsv(tmp_path, [(f"Sentence {n}", f"వాక్యం {n}") for n in range(50)])
    drawn = {
        tuple(english_of(translations(from_pairs(text, pairs=5), seed, NO_TESTS)[0]))
        for seed in (PAIRS_SEED, PAIRS_SEED, ("other",))
    }
    assert len(drawn) == 2 and all(len(set(english)) == 5 for english in drawn)


@pytest.mark.bad_input(
    "text",
    "pairs that lack a side or a quality score, are repeated, or contain placeholders",
    "dropped and counted; if none are left, a one-line error message says why",
)
def test_bad_pairs_are_dropped_and_counted(tmp_path):
    rows = [
        ("source", "target", "score"),  # a heading
        ("Good one", "మంచిది", 0.9),
        ("Good one", "మంచిది", 0.9),
        ("", "ఖాళీ", 0.9),
        ("Bad one", "చెడ్డది", 0.2),
        ("No number", "సంఖ్య లేదు"),
        ("Not a number", "సంఖ్య కాదు", "nan"),
        ("Hello {name}", "నమస్తే {name}", 0.9),
    ]
    text = tsv(tmp_path, rows, quality_column=3)
    samples, facts = translations(from_pairs(text, minimum_quality=0.5), PAIRS_SEED, NO_TESTS)
    assert english_of(samples) == ["Good one"]
    assert facts["selection"] == {"without_quality": 3, "below_minimum": 1, "like_tests": 0}
    assert (facts["cleaning"]["blank"], facts["cleaning"]["placeholder"]) == (1, 1)


def test_no_pair_gives_a_test_away_on_either_side(tmp_path):
    rows = [
        ("We saw two dogs today!", "x"),
        ("Two DOGS", "y"),
        ("Cats", "మూడు పిల్లులు."),
        ("A", "z"),
    ]
    tests = Overlap(["Two dogs", "We saw two dogs", "మూడు పిల్లులు"])
    samples, facts = translations(from_pairs(tsv(tmp_path, rows)), PAIRS_SEED, tests)
    assert english_of(samples) == ["A"]
    assert facts["selection"]["like_tests"] == 3


@pytest.mark.bad_input(
    "text",
    "pairs that lack a side or a quality score, are repeated, or contain placeholders",
    "dropped and counted; if none are left, a one-line error message says why",
)
def test_fewer_pairs_than_asked_for_are_taken_and_said_and_none_is_an_error(tmp_path):
    text = tsv(tmp_path, [(*PAIRS[0], 0.9), (*PAIRS[1], 0.1)], quality_column=3)
    samples, facts = translations(
        from_pairs(text, pairs=2, minimum_quality=0.5), PAIRS_SEED, NO_TESTS
    )
    assert (len(samples), facts["pairs"]) == (2, 1)  # one pair in both directions
    assert facts["reduced"] == {"pairs": {"wanted": 2, "taken": 1}}
    with pytest.raises(UserError, match=r"pairs: none is of sufficient quality .*below_minimum 2"):
        translations(from_pairs(text, minimum_quality=5), PAIRS_SEED, NO_TESTS)


ROWS_SEED = (0, "corpus", "te", "samples", "science")
ROWS = [
    {"question": "What is ice?", "choices": {"text": ["water", "fire"]}, "label": 0},
    {"question": "What burns?", "choices": {"text": ["stone", "wood"]}, "label": 1},
]
UNIFYVOCAB = REPOSITORY / "config/studies/unifyvocab.yaml"
TEMPLATES = {
    "prompt": "Question: {{question}}\nAnswer:",
    "answer": " {{choices.text[label]}}",
}


def from_rows(folder, rows, number=None, **templates):
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    text = {"loader": "jsonl", "path": str(file)}
    return {**TEMPLATES, "text": text, "questions": number, **templates}


def test_templates_are_filled_from_nested_columns(tmp_path):
    samples, facts = questions(from_rows(tmp_path, ROWS), ROWS_SEED, NO_TESTS)
    assert sorted(samples) == [
        ("Question: What burns?\nAnswer:", " wood"),
        ("Question: What is ice?\nAnswer:", " water"),
    ]
    assert facts["rows"] == {"read": 2, "blank": 0, "like_tests": 0}


def test_rows_of_several_tables_with_their_own_templates_are_added(tmp_path):
    """The templates of WinoGrande and ARC in config/studies/unifyvocab.yaml."""
    tasks = read_yaml(UNIFYVOCAB)["languages"]["pile"]["samples"]["tasks"]
    arc, *_, winogrande = tasks, *tasks["more"]
    row = {"question": "What is ice?", "answerKey": "B"}
    row["choices"] = {"text": ["fire", "water"], "label": ["A", "B"]}
    given = from_rows(tmp_path, [row], **{key: arc[key] for key in TEMPLATES})
    row = {"sentence": "Ice on a stove will _ soon.", "option1": "melt", "option2": "grow"}
    file = tmp_path / "more.jsonl"
    file.write_text(json.dumps(row | {"answer": "1"}) + "\n")
    given["more"] = [winogrande | {"text": {"loader": "jsonl", "path": str(file)}}]
    samples, _ = questions(given, ROWS_SEED, NO_TESTS)
    assert sorted(samples) == [
        ("Ice on a stove will", " melt soon."),
        ("Question: What is ice?\nAnswer:", " water"),
    ]


@pytest.mark.parametrize(
    ("prompt", "answer", "made"),
    [
        ("Answer:", " wood", ("Answer:", " wood")),
        ("Answer: ", "wood", ("Answer:", " wood")),
        ("Answer:\n", "wood", ("Answer:", "\nwood")),
        ("Answer: \n", "  wood \n", ("Answer:", " \n  wood")),
        ("A\r\nB:", " wood\x00", ("A\nB:", " wood")),
        ("答え：", "木", ("答え：", "木")),
        ("Answer:", "  ", None),
        (" \n", " wood", None),
    ],
)
def test_white_space_between_the_two_is_the_answer_s(prompt, answer, made):
    assert joined(prompt, answer) == made


def test_blank_repeated_and_tested_rows_are_left_out(tmp_path):
    rows = [
        {"q": "kept", "a": "yes"}, {"q": "kept", "a": "yes"}, {"q": "no answer", "a": None},
        {"q": "empty", "a": " "}, {"q": "Is this sentence tested?", "a": "yes"},
    ]  # fmt: skip
    given = from_rows(tmp_path, rows, prompt="Q: {{q}}", answer=" {{a or ''}}")
    samples, facts = questions(given, ROWS_SEED, Overlap(["Is this sentence tested"]))
    assert samples == [("Q: kept", " yes")]
    assert facts["rows"] == {"read": 5, "blank": 2, "like_tests": 1}


@pytest.mark.bad_input(
    "text",
    "a sample template that does not fit the rows",
    "a one-line error message names the template and the line",
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": "{{quastion}}"}, r"line 1: the template 'prompt' cannot be filled .*label"),
        ({"answer": " {{choices.text[7]}}"}, "template 'answer' cannot be filled"),
        ({"answer": " {{choices.text[label"}, "answer: not a Jinja template"),
        ({"answer": "{{ ''.__class__.__mro__ }}"}, "template 'answer' cannot be filled"),
    ],
)
def test_errors_are_one_line(tmp_path, change, message):
    with pytest.raises(UserError, match=message) as error:
        questions({**from_rows(tmp_path, ROWS), **change}, ROWS_SEED, NO_TESTS)
    assert "\n" not in str(error.value)


def test_line_separators_inside_a_sample_end_no_line(tmp_path):
    samples = [("a\u2028b\nc:", " d\u0085e"), ('"quoted" \\:', " 木")]
    write_samples(tmp_path, samples)
    assert read_samples(tmp_path / "samples.jsonl") == samples
