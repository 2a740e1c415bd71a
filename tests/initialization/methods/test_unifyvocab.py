import numpy as np
import pytest

from lexigraft.auxiliary.glove import train_glove
from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.registry import initializer
from lexigraft.vocabulary.expand import expand_tokenizer

LETTERS = [chr(letter) for letter in range(ord("a"), ord("z") + 1)]


@pytest.fixture
def pair(byte_level):
    """New: `abc` and `de`; the target replaces the source, so that ids differ."""
    source = byte_level([("a", "b"), ("x", "y")])
    return source, byte_level([("a", "b"), ("ab", "c"), ("d", "e")])


@pytest.fixture
def fit(pair, token_vectors):
    """Fits with vectors of target and source tokens: `fit(of_target, of_source, **options)`."""

    def run(of_target, of_source, seed=0, **options):
        roles = {
            "target": token_vectors(pair[1], of_target),
            "source": token_vectors(pair[0], of_source),
        }
        return initializer("unifyvocab", **options).fit(*pair, auxiliary=roles, seed=seed)

    return run


def test_a_new_token_copies_the_source_token_of_the_highest_cosine(fit, row):
    of_source = {"x": (10, 10), "y": (0, 0.1), "xy": (3, 1)}
    fitted = fit({"abc": (2, 0), "de": (0.1, 5)}, of_source)
    assert row(fitted, "abc") == {"xy": 1.0}
    assert row(fitted, "de") == {"y": 1.0}
    assert fitted.fallbacks_ == []
    statistics = fitted.statistics()
    assert (statistics["share_copy"], statistics["anchors"]) == (1.0, 0)


def test_examples_have_the_three_nearest_source_tokens(fit):
    of_source = {"x": (10, 10), "y": (0, 0.1), "xy": (3, 1), "a": (-1, 0)}
    (abc, de) = fit({"abc": (2, 0), "de": (0.1, 5)}, of_source).examples()
    # Cosines of (1, 0) to the directions of the source tokens; (0, 1) is at a right angle.
    assert abc["text"] == "abc"
    assert abc["nearest"] == [["xy", 0.9487], ["x", 0.7071], ["y", 0.0]]
    assert [text for text, _ in de["nearest"]] == ["y", "x", "xy"]


def turned_spaces(draws, spread=1.0):
    """Vectors of letters with a common direction, and the same in a space turned at random.

    The new tokens `abc` and `de` lie where the source has `xy` and `w`.
    """
    names = [*LETTERS, "xy"]
    ours = draws.normal(0, spread, (len(names), 12)) + 1
    turn = np.linalg.qr(draws.normal(size=(12, 12)))[0]
    of_source = dict(zip(names, ours, strict=True))
    theirs = {name: row @ turn for name, row in of_source.items()}
    of_target = {name: theirs[name] for name in LETTERS if name not in "w"}
    return {**of_target, "abc": theirs["xy"], "de": theirs["w"]}, of_source


@pytest.mark.parametrize("more", [{}, {"centred": True}, {"centred": True, "csls": 2}])
def test_anchors_align_a_rotated_space(fit, row, more):
    found = {None: 0, 20: 0}
    for seed in range(10):
        spaces = turned_spaces(np.random.default_rng(seed))
        for anchors in found:
            fitted = fit(*spaces, seed=seed, anchors=anchors, **more)
            found[anchors] += row(fitted, "abc") == {"xy": 1.0}
            found[anchors] += row(fitted, "de") == {"w": 1.0}
    assert found[20] == 20
    assert found[None] < 5


def test_without_renormalization_long_representations_are_hubs(fit, row):
    # z points where both anchors do, so that its description is the longest; abc is y exactly.
    anchors = {"a": (1, 0.2, 0), "b": (1, -0.2, 0)}
    of_source = {**anchors, "z": (1, 0, 0), "y": (0.3, 0.3, 1)}
    of_target = {**anchors, "abc": (0.3, 0.3, 1), "de": (1, 0, 0)}
    kept = fit(of_target, of_source, anchors=2)
    forgotten = fit(of_target, of_source, anchors=2, renormalized=False)
    assert row(kept, "abc") == {"y": 1.0}
    assert row(forgotten, "abc") == row(forgotten, "de") == {"z": 1.0}


def test_csls_avoids_hubs(fit, row):
    # Cosines of abc: 0.96 to x, 0.8 to y; of de: 0.96 to x, 0 to y. x is near to both of them.
    of_target = {"abc": (1, 0, 0), "de": (0.8432, 0.5376, 0)}
    of_source = {"x": (0.96, 0.28, 0), "y": (0.8, -0.5, 0.3317)}
    assert row(fit(of_target, of_source), "abc") == {"x": 1.0}
    with_csls = fit(of_target, of_source, csls=2)
    # 0.96 - 0.96 / 2 = 0.48 of x; 0.8 - (0.8 + 0.41) / 4 = 0.50 of y.
    assert row(with_csls, "abc") == {"y": 1.0}
    assert row(with_csls, "de") == {"x": 1.0}


def test_centring_removes_the_mean_vector(fit, row):
    of_target = {"abc": (1, 0.1, 0), "de": (1, -0.1, 0), "a": (1, 0, 0)}
    of_source = {"x": (0.1, 0, 1), "y": (-0.1, 0, 1), "z": (0, 0.1, 1), "xy": (0, -0.1, 1)}
    assert row(fit(of_target, of_source), "abc") == {"x": 1.0}
    fitted = fit(of_target, of_source, centred=True)
    assert row(fitted, "abc") == {"z": 1.0}
    assert row(fitted, "de") == {"xy": 1.0}


def test_vectors_of_different_widths_need_anchors(fit, row):
    of_target, of_source = (
        {"abc": (1, 0), "de": (0, 1), "a": (1, 0)},
        {"a": (0, 0, 1), "x": (0, 1, 0)},
    )
    with pytest.raises(UserError, match="vectors of width 2 and 3 cannot be compared"):
        fit(of_target, of_source)
    assert row(fit(of_target, of_source, anchors=1), "abc") == {"a": 1.0}


def test_on_real_text_it_equals_the_definition(mistral_cut, greek):
    source, target = mistral_cut, expand_tokenizer(mistral_cut, greek, 40)
    settings = {"dimensions": 10, "epochs": 4, "minimum_count": 5}
    roles = {
        role: train_glove(tokenizer, greek, **settings, seed=seed)
        for seed, (role, tokenizer) in enumerate((("target", target), ("source", source)))
    }
    fitted = initializer("unifyvocab", anchors=40).fit(source, target, auxiliary=roles, seed=3)
    pair = fitted.pair_
    held = {
        role: dict(zip(made.tokens.tolist(), made.vectors.astype(float), strict=True))
        for role, made in roles.items()
    }
    shared = [i for i in held["target"] if i in set(pair.shared_ids.tolist())]
    shared = np.array([i for i in sorted(shared) if pair.source_of[i] in held["source"]])
    anchors = fitted._generator("anchors").choice(shared, 40, replace=False)

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    def described(role, token, ids):
        return np.array([cosine(held[role][token], held[role][i]) for i in ids])

    sources = {
        i: described("source", i, pair.source_of[anchors])
        for i in held["source"]
        if i not in pair.source_special_ids
    }
    found, checked = fitted.weights_, 0
    for token in pair.new_ids.tolist():
        if token in held["target"]:
            ours = described("target", token, anchors)
            scores = {i: cosine(ours, theirs) for i, theirs in sources.items()}
            (chosen,) = found[[token]].indices
            assert scores[chosen] == pytest.approx(max(scores.values()), abs=1e-5)
            checked += 1
    assert checked + len(fitted.fallbacks_) == 40
    assert checked > 30


def many_new(byte_level):
    """Twenty new tokens, two letters each, and vectors that make each copy its own letter."""
    merges = [(letter, "z") for letter in LETTERS[:20]]
    rows = dict(zip(LETTERS[:20], np.eye(20), strict=True))
    return byte_level([]), byte_level(merges), rows


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_share_of_the_tokens_is_shuffled(byte_level, token_vectors, row, share):
    source, target, rows = many_new(byte_level)
    ours = {f"{letter}z": rows[letter] for letter in LETTERS[:20]}
    roles = {"target": token_vectors(target, ours), "source": token_vectors(source, rows)}
    made = initializer("unifyvocab", shuffled=share)
    fitted = made.fit(source, target, auxiliary=roles, seed=1)
    # The alignment also holds the 256 shared tokens, without `<s>`.
    aligned = {token: token[0] for token in target.get_vocab() if token != "<s>"}
    copied = {token: next(iter(row(fitted, token))) for token in aligned}
    assert sorted(copied.values()) == sorted(aligned.values())
    moved = {token for token in aligned if copied[token] != aligned[token]}
    assert 276 * share * 0.9 <= len(moved) <= 276 * share
    assert bool(moved & {*source.get_vocab()}) == (share > 0)
    assert moved <= {*fitted.pair_.new_tokens}
    assert row(fitted, "<s>") == {"<s>": 1.0}


def test_a_token_without_a_vector_may_copy_a_random_source_token(fit, row, pair):
    of_source = {"x": (1, 1), "y": (0, 1)}
    fits = [fit({"abc": (1, 0)}, of_source, seed, without_vector="random") for seed in range(4)]
    rows = [row(fitted, "de") for fitted in fits]
    assert len({next(iter(found)) for found in rows}) > 1
    assert all([*found.values()] == [1.0] and "<s>" not in found for found in rows)
    assert fits[0].fallbacks_ == ["de"] and row(fits[0], "abc") == {"x": 1.0}


def test_equal_tokenizers_give_the_identity(pair):
    source = pair[0]
    everything = TokenVectors(
        np.arange(len(source)), np.random.default_rng(0).normal(size=(len(source), 4)).astype("f4")
    )
    roles = {"target": everything, "source": everything}
    fitted = initializer("unifyvocab", anchors=3).fit(source, source, auxiliary=roles)
    assert (fitted.weights_ != np.eye(len(source))).sum() == 0
