import numpy as np
import pytest

from lexigraft.errors import UserError
from lexigraft.initialization.registry import initializer
from tests.initialization.skip_gram_loss import loss_by_definition

SMALL = {"window": 2, "rank": 8, "batch_tokens": 16}


@pytest.fixture
def pair(byte_level):
    """New: `ab`, `de` and `xyz`."""
    merges = [("x", "y")]
    return byte_level(merges), byte_level([*merges, ("a", "b"), ("d", "e"), ("xy", "z")])


@pytest.fixture
def matrices(pair, matrix):
    return {which: matrix(len(pair[0]), seed=seed) for which, seed in (("input", 1), ("output", 2))}


@pytest.fixture
def fit(pair, matrices):
    def fitted(corpus, seed=0, given=None, dictionary=(), **options):
        auxiliary = {"matrices": given or matrices, "dictionary": dictionary}
        made = initializer("cw2v", **{**SMALL, **options})
        return made.fit(*pair, corpus=corpus, auxiliary=auxiliary, seed=seed)

    return fitted


CORPUS = ["abc", "cab", "deab", "xabc", "decde"]


def by_string(fitted, token, which):
    """Recipe of a token as a dict: vocabulary string of the source token -> weight."""
    row = fitted.weights_[which][[fitted.pair_.target_tokenizer.get_vocab()[token]]]
    strings = fitted.pair_.source_tokenizer.convert_ids_to_tokens(row.indices.tolist())
    return dict(zip(strings, row.data.tolist(), strict=True))


@pytest.mark.parametrize("keep", [3, 1000])
def test_untrained_rows_are_the_mean_of_all(fit, pair, keep):
    fitted = fit(CORPUS, epochs=0, keep=keep)
    for which in ("input", "output"):
        found = by_string(fitted, "ab", which)
        assert len(found) == len(pair[0])
        np.testing.assert_allclose(list(found.values()), 1 / len(pair[0]), rtol=1e-5)


def test_rows_can_start_as_nine_tenths_of_the_mean_of_the_pieces(fit, pair):
    found = by_string(fit(CORPUS, epochs=0, start="mean"), "ab", "output")
    spread = 0.1 / len(pair[0])
    assert (found["a"], found["b"]) == pytest.approx((0.45 + spread, 0.45 + spread))
    assert found["c"] == pytest.approx(spread)


def test_the_validation_loss_equals_its_definition(fit, pair, matrices):
    fitted = fit(CORPUS, epochs=4, learning_rate=0.05, keep=1000)
    target = pair[1]
    sentences = [np.array(ids) for ids in target(CORPUS)["input_ids"]]
    before = fit(CORPUS, epochs=0, keep=1000)
    for made, loss in ((before, fitted.losses_[0]), (fitted, fitted.losses_[-1])):
        score = made.apply(matrices["input"]) @ made.apply(matrices["output"], "output").T
        assert loss == pytest.approx(loss_by_definition(sentences, 2, 5, score), rel=1e-4)
    assert len(fitted.losses_) == 5
    assert fitted.losses_[-1] < fitted.losses_[0]
    statistics = fitted.statistics()
    assert statistics["loss_before"] == fitted.losses_[0]
    assert statistics["loss_after"] == fitted.losses_[-1]


def test_trained_recipes_find_the_right_source_rows_of_each_matrix(fit, pair, matrices):
    # `ab` stands beside `c` alone: what suits it best is `q` as input and `r` as output.
    vocabulary = pair[0].get_vocab()
    planted = {which: 0.1 * rows for which, rows in matrices.items()}
    planted["output"][vocabulary["c"]] = [3, 0, 0, 0, 0, 0, 0, 0]
    planted["input"][vocabulary["q"]] = [2, 0, 0, 0, 0, 0, 0, 0]
    planted["input"][vocabulary["c"]] = [0, 3, 0, 0, 0, 0, 0, 0]
    planted["output"][vocabulary["r"]] = [0, 2, 0, 0, 0, 0, 0, 0]
    fitted = fit(["abc", "de1", "2xy"] * 6, given=planted, window=1, epochs=80, learning_rate=0.05)
    found = {which: by_string(fitted, "ab", which) for which in ("input", "output")}
    assert max(found["input"], key=found["input"].get) == "q"
    assert max(found["output"], key=found["output"].get) == "r"
    assert min(found["input"]["q"], found["output"]["r"]) > 0.5


def test_rows_stay_in_the_hull_and_source_rows_do_not_change(fit, pair, matrices):
    fitted = fit(CORPUS, epochs=3, learning_rate=0.1, keep=4)
    for which, weights in fitted.weights_.items():
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
        assert weights.data.min() >= 0
        made = fitted.apply(matrices[which], which)
        assert np.array_equal(made[: len(pair[0])], matrices[which])
    statistics = fitted.statistics()
    assert statistics["share_in_hull"] == statistics["output_share_in_hull"] == 1.0
    assert 0 < statistics["moved_weight"] < 0.5


def test_a_token_without_neighbours_falls_back_to_its_pieces(fit):
    fitted = fit([*CORPUS, "xyz"])
    assert fitted.fallbacks_ == ["xyz"]
    for which in ("input", "output"):
        assert by_string(fitted, "xyz", which) == {"xy": 0.5, "z": 0.5}
    assert fitted.statistics()["share_fallback"] == pytest.approx(1 / 3)


def test_entries_of_a_dictionary_are_sentences(fit):
    fitted = fit(CORPUS, dictionary=[("cat", "xyz")])
    assert fitted.fallbacks_ == []
    assert fit([*CORPUS, "cat xyz"]).losses_ == fitted.losses_


def test_padding_rows_and_special_tokens_are_not_trained_on(pair, matrix):
    padded = {"input": matrix(len(pair[0]) + 1)}
    padded["input"][-1] = np.nan
    fitted = initializer("cw2v", **SMALL).fit(
        *pair, corpus=[*CORPUS, "<s>abc"], n_source=len(padded["input"]),
        auxiliary={"matrices": padded},
    )  # fmt: skip
    assert np.isfinite(fitted.losses_).all()
    assert np.isfinite(fitted.apply(padded["input"])[fitted.new_ids]).all()


def test_a_replaced_vocabulary_is_trained_beside_its_copied_rows(byte_fallback, byte_level):
    source = byte_level([("a", "b")])
    target = byte_fallback([("a", "b"), ("c", "d")])
    matrices = {"input": np.random.default_rng(0).normal(size=(len(source), 8))}
    corpus = ["abcd", "cdab", "fcdab"]
    fitted = initializer("cw2v", **SMALL, epochs=2, learning_rate=0.05, keep=1000).fit(
        source, target, corpus=corpus, auxiliary={"matrices": matrices}
    )
    made = {which: fitted.apply(matrices["input"], which) for which in ("input", "output")}
    sentences = [np.array(ids) for ids in target(corpus, add_special_tokens=False)["input_ids"]]
    score = made["input"] @ made["output"].T
    assert fitted.losses_[-1] == pytest.approx(loss_by_definition(sentences, 2, 5, score), rel=1e-4)
    vocabulary = target.get_vocab()
    assert vocabulary["cd"] in fitted.new_ids
    assert vocabulary["ab"] not in fitted.new_ids


def test_subsampling_reduces_centres_in_training_and_validation(fit):
    every, thinned, none = (fit(CORPUS, epochs=1, subsampling=at) for at in (None, 1, 1e9))
    assert none.losses_ == fit(CORPUS, epochs=1, subsampling=1e8).losses_
    assert none.losses_[0] == pytest.approx(every.losses_[0], rel=1e-6)
    assert thinned.losses_ != none.losses_


def test_rows_mix_the_shared_tokens_alone_with_one_recipe_for_a_tied_matrix(
    byte_fallback, byte_level
):
    """As for RoBERTa in the paper, where 37,964 x 19,986 weights are 59 M (appendix E)."""
    source, target = byte_level([("a", "b"), ("x", "y")]), byte_fallback([("a", "b"), ("c", "d")])
    matrices = {"input": np.random.default_rng(0).normal(size=(len(source), 8))}
    fitted = initializer("cw2v", **SMALL, keep=2, epochs=2, basis="shared", one_recipe=True).fit(
        source, target, corpus=["abcd", "cdab", "fcdab"], auxiliary={"matrices": matrices}
    )
    shared = fitted.source_of[fitted.source_of >= 0]
    assert 0 < len(set(shared)) < len(source)
    row = fitted.weights_[[target.get_vocab()["cd"]]]
    assert set(row.indices) == set(shared)
    assert row.sum() == pytest.approx(1)
    expected = SMALL["rank"] * (len(fitted.new_ids) + len(set(shared)))
    assert fitted.statistics()["trained_parameters"] == expected
    assert round(1024 * (37_964 + 19_986) / 1e6) == 59


@pytest.mark.bad_input
def test_one_recipe_needs_tied_matrices(fit):
    with pytest.raises(UserError, match="option 'one_recipe' of initializer 'cw2v'"):
        fit(CORPUS, one_recipe=True)
