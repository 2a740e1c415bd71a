"""The corpus of a group of languages, built from those of its members."""

import json
from collections import Counter
from pathlib import Path

import pytest

from lexigraft.corpus.groups import mix_corpora
from lexigraft.corpus.lines import corpus_sentences
from lexigraft.corpus.mixture import all_texts, read_part, text_shares
from lexigraft.evaluation.texts import member_sentences

SEED = (0, "corpus", "group")


def corpus(folder, train, heldout, english=("Good morning",), targets=(), summaries=()):
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
        "el": corpus(tmp_path / "el", greek[:16], greek[16:], ["Good morning", "Yes"]),
        "sw": corpus(tmp_path / "sw", latin[:20], latin[20:], ["Good morning", "No"]),
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
    members["el"] = corpus(tmp_path / "leaky", [*leaked, "καλό κείμενο"], ["ναι"])
    members["sw"] = corpus(tmp_path / "s", ["maandishi"], [held], (), [target], [summary])
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
