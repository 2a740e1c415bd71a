"""The corpus of a group of languages, built from those of its members."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.corpus.groups import _order, counts_of, mix_corpora, shares_of
from lexigraft.corpus.lines import corpus_sentences
from lexigraft.corpus.mixture import all_texts, check_shares, read_part, text_shares
from lexigraft.errors import UserError
from lexigraft.evaluation.texts import member_sentences

SEED = (0, "corpus", "group")


def write_corpus(folder, train, heldout, english=("Good morning",), targets=(), summaries=()):
    (folder / "tasks").mkdir(parents=True)
    for name, lines in (("train", train), ("heldout", heldout), ("english", english)):
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    rows = {
        "translation": [{"target": text} for text in targets],
        "summarization": [{"reference": text} for text in summaries],
    }
    for task, found in rows.items():
        text = "".join(json.dumps(row) + "\n" for row in found)
        (folder / "tasks" / f"{task}.jsonl").write_text(text)
    return folder


@pytest.fixture
def members(tmp_path):
    greek = [f"πρόταση {letter}" for letter in "αβγδεζηθικλμνξοπρστυ"]
    latin = [f"sentensi {letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    return {
        "el": write_corpus(tmp_path / "el", greek[:16], greek[16:], ["Good morning", "Yes"]),
        "sw": write_corpus(tmp_path / "sw", latin[:20], latin[20:], ["Good morning", "No"]),
    }


def settings(shares=None, temperature=1, train_sentences=None):
    group = {"members": ["el", "sw"], "shares": shares or {}, "temperature": temperature}
    return {"name": "Two", "group": group, "train_sentences": train_sentences}


def lines_of(folder, name):
    return (Path(folder) / f"{name}.txt").read_text("utf-8").split("\n")[:-1]


def test_members_have_all_their_text_and_what_is_read_has_the_shares(members, tmp_path):
    files, facts = mix_corpora(settings({"el": 0.75, "sw": 0.25}), members, tmp_path / "out", SEED)
    for name, place in members.items():
        assert lines_of(tmp_path / "out" / "members" / name, "train") == lines_of(place, "train")
    read = list(read_part(tmp_path / "out"))
    # Of 16 Greek sentences of 9 characters, at three quarters: 48 characters of Swahili.
    assert Counter(line.split()[0] for line in read) == {"πρόταση": 16, "sentensi": 5}
    assert len(set(read)) == len(read) == 21
    for end in range(1, len(read)):
        greek = sum(len(line) for line in read[:end] if line.startswith("π"))
        assert abs(greek - 0.75 * sum(map(len, read[:end]))) <= 10
    assert text_shares(tmp_path / "out") == {"el": 0.75, "sw": 0.25}
    assert facts["members"]["sw"] == {
        "share": 0.25, "train_sentences": 20, "of": 20, "kept_out_of_training": 0,
        "heldout_sentences": 4,
    }  # fmt: skip
    assert all((tmp_path / "out" / name).is_file() for name in files)


def test_held_out_text_has_equally_many_sentences_of_each_member(members, tmp_path):
    mix_corpora(settings(), members, tmp_path / "out", SEED)
    kept = member_sentences(tmp_path / "out")
    assert {name: len(lines) for name, lines in kept.items()} == {"el": 4, "sw": 4}
    assert kept["sw"] == lines_of(members["sw"], "heldout")[:4]
    both = sorted(kept["el"] + kept["sw"])
    assert sorted(corpus_sentences(tmp_path / "out", "heldout")) == both
    assert set(lines_of(tmp_path / "out", "english")) == {"Good morning", "Yes", "No"}


def test_no_member_trains_on_what_another_is_tested_on(members, tmp_path):
    held, target, summary = "Siri za kale sana", "tafsiri ya mtihani", "muhtasari wa habari"
    leaked = ["SIRI za Kale sana!", f"Ni {held}, ndiyo", f"{target} λέξη", summary]
    members["el"] = write_corpus(tmp_path / "leaky", [*leaked, "καλό κείμενο"], ["ναι"])
    members["sw"] = write_corpus(tmp_path / "s", ["maandishi"], [held], (), [target], [summary])
    (members["sw"] / "english.txt").write_text("Yes\n")
    _, facts = mix_corpora(settings(), members, tmp_path / "out", SEED)
    assert set(all_texts(tmp_path / "out")) == {"καλό κείμενο", "maandishi"}
    assert facts["members"]["el"]["kept_out_of_training"] == 4


def test_a_group_of_small_texts_takes_what_there_is_and_says_so(members, tmp_path, caplog):
    equal = {"el": 0.5, "sw": 0.5}
    _, facts = mix_corpora(settings(equal, train_sentences=90), members, tmp_path / "out", SEED)
    # 16 Greek sentences of 9 characters, and as many characters of Swahili.
    taken = {name: one["train_sentences"] for name, one in facts["members"].items()}
    assert taken == {"el": 16, "sw": 14}
    assert facts["reduced"] == {"train_sentences": {"wanted": 90, "taken": 30}}
    assert (
        "Two: the text is smaller than the requested sizes: train_sentences 30 of 90" in caplog.text
    )
    _, whole = mix_corpora(settings(equal), members, tmp_path / "all", SEED)
    assert whole["reduced"] == {}


def test_temperature_one_is_proportional_and_infinity_equal():
    sizes = {"a": 100, "b": 300}
    assert shares_of(sizes, {}, 1) == {"a": 0.25, "b": 0.75}
    assert shares_of(sizes, {}, math.inf) == {"a": 0.5, "b": 0.5}


def test_a_fixed_share_leaves_the_rest_to_the_temperature():
    # English 1/3, the others by size in what is left: 2/3 · 1/4 and 2/3 · 3/4.
    shares = shares_of({"en": 10_000, "a": 100, "b": 300}, {"en": 1 / 3}, 1)
    assert shares == pytest.approx({"en": 1 / 3, "a": 1 / 6, "b": 1 / 2})


@given(
    sizes=st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=80), min_size=2, max_size=6),
    share=st.floats(0.05, 0.9),
    characters=st.integers(1, 2000) | st.none(),
)
def test_a_mix_has_its_shares_of_characters_to_within_a_sentence(sizes, share, characters):
    texts = {str(place): np.array(own) for place, own in enumerate(sizes)}
    shares = shares_of({name: own.sum() for name, own in texts.items()}, {"0": share}, 1)
    counts, whole = counts_of(texts, shares, ("seed",), None, characters)
    total = min(own.sum() / shares[name] for name, own in texts.items())
    assert whole["train_characters"] == pytest.approx(total, abs=1)
    total = min(total, characters or total)
    for name, own in texts.items():
        drawn = own[_order(len(own), ("seed",), name)[: counts[name]]]
        assert len(drawn) == counts[name]
        assert total * shares[name] - own.max() <= drawn.sum() <= total * shares[name] + 0.1


@pytest.mark.bad_input(
    "text",
    "invalid shares of a group of languages",
    "a one-line error message names the member or gives their sum",
)
@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"c": 0.5}, "'c' is not a member"),
        ({"a": 0.5, "b": 0.4}, "they add up to 0.9, not 1"),
        ({"a": 1.0}, "leaves nothing for b"),
    ],
)
def test_shares_that_cannot_be_had_are_refused(shares, message):
    with pytest.raises(UserError, match=message):
        check_shares(["a", "b"], shares)


def test_a_language_with_little_text_bounds_all_of_them():
    sizes = {"a": np.ones(60, dtype=np.int64), "b": np.ones(10, dtype=np.int64)}
    assert counts_of(sizes, {"a": 0.5, "b": 0.5}, ("seed",), 100)[0] == {"a": 10, "b": 10}
    assert counts_of(sizes, {"a": 0.8, "b": 0.2}, ("seed",), 49)[0] == {"a": 40, "b": 9}


def test_a_member_that_left_the_group_leaves_no_file(members, tmp_path):
    mix_corpora(settings(), members, tmp_path / "out", SEED)
    mix_corpora(settings(), {"el": members["el"]}, tmp_path / "out", SEED)
    assert list(member_sentences(tmp_path / "out")) == ["el"]
