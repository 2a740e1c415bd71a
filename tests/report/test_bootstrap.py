"""Paired bootstrap against all resamples of a small case, and against sacrebleu's."""

import itertools
import math
import random
from dataclasses import asdict

import numpy as np
import pytest
from sacrebleu.metrics import CHRF

from lexigraft.evaluation.metrics.chrf import chrf_score, chrf_statistics
from lexigraft.report import significance
from lexigraft.report.example_scores import mean_score
from lexigraft.report.significance import (
    PairedTest,
    Spread,
    _mean_of_finite,
    _resampled_counts,
    correct_together,
    effect_size,
    mean_over_seeds,
    paired_test,
    pooled_spread,
    resample,
    seed_noise,
    shared_runs,
)

WORDS = ["లక్ష్మి", "తెలుగు", "γλώσσα", "a", "of the", "ไทย", "x y z", ""]


def texts(seed, count):
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS) for _ in range(draw.randrange(6))) for _ in range(count)]


def means(*values):
    return np.column_stack([values, np.ones(len(values))])


def run_scores(system, counts, score):
    return {key: score(counts @ statistics) for key, statistics in system.items()}


def generator():
    return np.random.default_rng(0)


def scores(system, counts, score):
    """On all examples, then in each resample."""
    return run_scores(system, np.vstack([np.ones(counts.shape[1]), counts]), score)


def compare(first, second, counts, score):
    return compare_scores(*(scores(one, counts, score) for one in (first, second)))


def compare_scores(first, second, noise=0.0):
    """Compare the models' means over the seeds and runs that both have."""
    means = map(mean_over_seeds, shared_runs(first, second))
    return paired_test(*means, None, noise, examples=1)


def observed(system, score):
    counts = np.ones((1, len(next(iter(system.values())))))
    return float(mean_over_seeds(run_scores(system, counts, score))[0])


def test_a_resample_draws_as_many_examples_as_there_are():
    counts = resample(7, 50, generator())
    assert counts.shape == (50, 7)
    assert (counts.sum(axis=1) == 7).all()


def test_p_and_interval_are_those_of_all_resamples():
    first, second = {(0, 0): means(5, 1, 8, 3)}, {(0, 0): means(3, 2, 4, 3)}
    every = np.array([np.bincount(drawn, minlength=4) for drawn in
                      itertools.product(range(4), repeat=4)], dtype=float)  # fmt: skip
    exact = compare(first, second, every, mean_score)
    drawn = compare(first, second, resample(4, 40_000, generator()), mean_score)
    assert exact.value == drawn.value == pytest.approx((2 - 1 + 4 + 0) / 4)
    assert drawn.p == pytest.approx(exact.p, abs=0.01)
    assert (drawn.low, drawn.high) == (exact.low, exact.high)
    # By hand: of 2, -1, 4 and 0 four are drawn, whose sum is 5 without chance; as far from 5 as
    # 5 is from zero are the sums up to 0 and from 10 on.
    sums = [sum(values) for values in itertools.product((2, -1, 4, 0), repeat=4)]
    assert exact.p == (1 + sum(abs(value - 5) >= 5 for value in sums)) / 257


def test_scores_of_resamples_are_those_of_sacrebleus_bootstrap():
    outputs, references = texts(5, 30), texts(6, 30)
    metric = CHRF()
    statistics = np.array(chrf_statistics(outputs, references), dtype=float)
    drawn = np.random.default_rng(12345).choice(30, size=(20, 30), replace=True)
    theirs = [metric._compute_score_from_stats(statistics[row].sum(0)).score for row in drawn]
    counts = np.array([np.bincount(row, minlength=30) for row in drawn], dtype=float)
    ours = mean_over_seeds(run_scores({(0, 0): statistics}, counts, chrf_score))
    assert ours == pytest.approx(theirs)


@pytest.mark.parametrize(("kept", "differs"), [(0.9, True), (0.0, False)])
def test_the_verdict_is_that_of_sacrebleus_paired_test(kept, differs):
    from sacrebleu.significance import PairedTest

    draw = random.Random(7)
    references = [" ".join(draw.choices(WORDS[:6], k=8)) for _ in range(80)]
    one = [" ".join(draw.choices(WORDS[:6], k=8)) for _ in references]
    other = [ref if draw.random() < kept else " ".join(draw.choices(WORDS[:6], k=8))
             for ref in references]  # fmt: skip
    rows = [np.array(chrf_statistics(system, references)) for system in (one, other)]
    ours = compare(
        {(0, 0): rows[1]}, {(0, 0): rows[0]}, resample(80, 1000, generator()), chrf_score
    )
    test = PairedTest([("one", one), ("other", other)], {"chrF": CHRF()}, [references], "bs", 1000)
    theirs = next(iter(value for name, value in test()[1].items() if name != "System"))[1]
    assert (ours.p < 0.05, theirs.p_value < 0.05) == (differs, differs)
    assert observed({(0, 0): rows[1]}, chrf_score) == pytest.approx(theirs.score)


def test_equal_scores_have_a_p_of_one():
    system = {(0, 0): means(3, 9, 1, 5)}
    found = compare(system, system, resample(4, 200, generator()), mean_score)
    assert (found.value, found.p) == (0.0, 1.0)


def test_equal_models_seldom_differ_significantly():
    draw = generator()
    lowest = []
    for _ in range(100):
        pair = [{(0, 0): means(*draw.normal(size=60))} for _ in range(2)]
        lowest.append(compare(*pair, resample(60, 200, draw), mean_score).p)
    assert sum(p < 0.05 for p in lowest) <= 12


def test_an_example_drawn_by_every_run_is_one_example():
    draw = generator()
    ours, theirs = means(*draw.normal(0.1, 1, 50)), means(*draw.normal(0, 1, 50))
    counts = resample(50, 500, generator())
    once = compare({(0, 0): ours}, {(0, 0): theirs}, counts, mean_score)
    often = [{(0, run): rows for run in range(5)} for rows in (ours, theirs)]
    assert asdict(compare(*often, counts, mean_score)) == pytest.approx(asdict(once), nan_ok=True)


def test_examples_of_different_runs_make_the_interval_narrower():
    draw = generator()
    rows = draw.normal(size=(2, 200))
    half = np.arange(200) < 100
    empty = np.zeros((200, 2))
    pair = []
    for own in rows:
        whole = means(*own)
        pair.append({(0, 0): np.where(half[:, None], whole, empty),
                     (0, 1): np.where(half[:, None], empty, whole)})  # fmt: skip
    counts = resample(200, 500, generator())
    both = compare(*pair, counts, mean_score)
    one = compare(*[{(0, 0): system[0, 0]} for system in pair], counts, mean_score)
    assert (both.high - both.low) < 0.85 * (one.high - one.low)


def test_seeds_are_averaged_after_runs():
    system = {(0, 0): means(1, 1), (0, 1): means(3, 3), (1, 0): means(10, 10)}
    assert observed(system, mean_score) == (2 + 10) / 2


def test_a_run_of_which_nothing_was_drawn_is_left_out_of_a_resample():
    system = {(0, 0): np.array([[4.0, 1], [0, 0]]), (0, 1): np.array([[0.0, 0], [8, 1]])}
    counts = np.array([[1.0, 1], [2, 0], [0, 2]])
    assert mean_over_seeds(run_scores(system, counts, mean_score)).tolist() == [6, 4, 8]


def test_a_run_that_only_one_model_has_does_not_count():
    first = {(0, 0): means(1, 2, 3), (0, 1): means(90, 90, 90)}
    second = {(0, 0): means(1, 2, 3)}
    assert compare(first, second, resample(3, 50, generator()), mean_score).value == 0


def test_resamples_are_drawn_in_parts(monkeypatch):
    monkeypatch.setattr(significance, "_CHUNK", 50)
    monkeypatch.setattr(significance, "RESAMPLES", 23)
    parts = list(_resampled_counts(9, generator()))
    assert [len(part) for part in parts] == [1, 5, 5, 5, 5, 3]
    assert (parts[0] == 1).all()
    assert (np.vstack(parts).sum(axis=1) == 9).all()


def test_the_spread_over_seeds_is_pooled_over_models():
    # By hand: squared distances from 2 are 1 and 1, from 30 are 100, 0 and 100; one seed has none.
    found = pooled_spread([[1, 3], [20, 30, 40], [7]])
    assert (found.freedom, found.deviation) == (3, pytest.approx((202 / 3) ** 0.5))
    assert pooled_spread([[7], [8]]) == Spread(0.0, 0)


def test_the_noise_of_seeds_is_students_t():
    from scipy.stats import kstest, t

    drawn = seed_noise(Spread(3.0, 4), [2, 3], 20_000, generator())
    scale = 3 * (1 / 2 + 1 / 3) ** 0.5
    assert kstest(drawn / scale, t(4).cdf).pvalue > 0.01
    assert not seed_noise(Spread(0.0, 0), [1, 1], 5, generator()).any()


def test_models_that_differ_only_by_seeds_seldom_differ_significantly():
    """Twelve models, two seeds each, of one kind: what another seed changes is larger than what
    other examples would."""
    draw, told, pairs = generator(), 0, 0
    for _ in range(25):
        systems = [{(seed, 0): means(*draw.normal(draw.normal(0, 1), 0.5, 40)) for seed in (0, 1)}
                   for _ in range(12)]  # fmt: skip
        counts = resample(40, 200, draw)
        found = [scores(system, counts, mean_score) for system in systems]
        spread = pooled_spread([float(own[0]) for own in one.values()] for one in found)
        for first, second in itertools.pairwise(found):
            noise = seed_noise(spread, [2, 2], 200, draw)
            told += compare_scores(first, second, noise).p < 0.05
            pairs += 1
    assert told / pairs < 0.09
    without = sum(
        compare_scores(*pair).p < 0.05 for pair in itertools.pairwise(found)
    )  # examples alone take every one of these models for better or worse
    assert without > 6


def test_a_real_difference_between_seeds_is_found():
    draw = generator()
    better, worse = ({(seed, 0): means(*draw.normal(mean + 0.1 * seed, 1, 200)) for seed in (0, 1)}
                     for mean in (3, 0))  # fmt: skip
    counts = resample(200, 1000, draw)
    pair = [scores(one, counts, mean_score) for one in (better, worse)]
    noise = seed_noise(Spread(0.1, 6), [2, 2], 1000, draw)
    found = compare_scores(*pair, noise)
    assert found.p < 0.01
    assert found.low < found.value < found.high


def test_an_effect_size_is_the_mean_difference_over_its_deviation():
    first, second = np.array([5.0, 1, 8, 3]), np.array([3.0, 2, 4, 3])
    # Differences 2, -1, 4, 0: mean 5/4, squared distances from it 9/16 + 81/16 + 121/16 + 25/16.
    assert effect_size(first, second) == pytest.approx(1.25 / (236 / 16 / 3) ** 0.5)
    assert effect_size(second, first) == -effect_size(first, second)


def test_an_effect_size_needs_a_spread():
    scores = np.array([1.0, 2, 3])
    assert np.isnan(effect_size(scores, scores))
    assert np.isnan(effect_size(scores + 1, scores))


def test_an_effect_size_is_of_examples_over_all_runs_that_drew_them():
    missing = np.nan
    first = _mean_of_finite([np.array([1.0, 4.0, missing]), np.array([3.0, missing, missing])])
    second = _mean_of_finite([np.array([0.0, 0.0, missing]), np.array([0.0, missing, missing])])
    # Of the first example 2, of the second 4, of the third nothing.
    assert effect_size(first, second) == pytest.approx(3 / 2**0.5)


def test_corrected_probabilities_are_worked_out_by_hand():
    # Benjamini and Hochberg: the i-th smallest times n / i, and no larger than a later one's.
    tests = {
        p: PairedTest(value=1.0, low=0.0, high=2.0, p=p, effect=0.5, examples=9)
        for p in (0.04, 0.01, math.nan, 0.03, 0.5)
    }
    found = [one.corrected for one in correct_together(tests).values()]
    expected = [0.16 / 3, 0.04, math.nan, 0.16 / 3, 0.5]
    assert found == pytest.approx(expected, nan_ok=True)
    assert correct_together({}) == {}
