import numpy as np
import pytest

from lexigraft.initialization.registry import initializer

GREEK = {"beginning": ["▁α", "▁β"], "inside": ["α", "β", "γ"]}
LATIN = "abcdef"


@pytest.fixture
def fitted(byte_fallback):
    """A source with Latin and Greek tokens; new are Greek ones, Latin ones and a Telugu one."""
    merges = [("▁", "α"), ("▁", "β")]
    source = byte_fallback(merges, new_characters="αβγ")
    target = byte_fallback(
        merges, new_characters="αβγత", new_merges=[("α", "β"), ("▁", "γ"), ("ab", "γ"), ("a", "b")]
    )
    return initializer("heuristics").fit(source, target, seed=1)


def test_rows_are_drawn_from_source_rows_of_the_same_script_and_position(fitted):
    source = fitted.pair_.source_tokenizer.get_vocab()
    target = fitted.pair_.target_tokenizer.get_vocab()
    rows = np.zeros((len(source), 4))
    for i, tokens in enumerate([LATIN, GREEK["beginning"], GREEK["inside"]]):
        rows[[source[token] for token in tokens]] = i + 1
    made = fitted.apply(rows)
    assert (made[target["αβ"]] == 3).all()
    assert (made[target["▁γ"]] == 2).all()
    assert (made[target["ab"]] == 1).all()


def test_deviations_are_those_of_the_group(fitted):
    source = fitted.pair_.source_tokenizer.get_vocab()
    rows = np.random.default_rng(0).normal(size=(len(source), 20_000))
    inside = [source[token] for token in GREEK["inside"]]
    rows[inside] *= 100
    made = fitted.apply(rows)[fitted.pair_.target_tokenizer.get_vocab()["αβ"]]
    wanted = (made - rows[inside].mean(axis=0)) / rows[inside].std(axis=0)
    assert wanted.std() == pytest.approx(1, rel=0.05)


def test_a_position_without_source_rows_uses_the_script(byte_fallback):
    source = byte_fallback([], new_characters="αβ")
    target = byte_fallback([], new_characters="αβ", new_merges=[("▁", "α")])
    fitted = initializer("heuristics").fit(source, target)
    rows = np.zeros((len(source), 3))
    rows[[source.get_vocab()[letter] for letter in "αβ"]] = 5
    assert (fitted.apply(rows)[fitted.new_ids] == 5).all()
    assert fitted.fallbacks_ == []
