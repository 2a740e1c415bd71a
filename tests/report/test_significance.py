"""The paired bootstrap against all resamples of a small case, and against sacrebleu's."""

import itertools
import random

import numpy as np
import pytest
from sacrebleu.metrics import CHRF

from lexigraft.evaluation.metrics.chrf import chrf_score, chrf_statistics
from lexigraft.report import significance
from lexigraft.report.significance import (
    Spread,
    effect_size,
    mean_over_seeds,
    mean_score,
    paired_test,
    pooled_spread,
    resample,
    resampled_scores,
    seed_noise,
    shared_runs,
)

WORDS = ["లక్ష్మి", "తెలుగు", "γλώσσα", "a", "of the", "ไทย", "x y z", ""]


def means(*values):
    return np.column_stack([values, np.ones(len(values))])


def generator():
    return np.random.default_rng(0)


def scores(runs, counts, score=mean_score):
    """Of each run, on all examples, then in each resample."""
    counts = np.vstack([np.ones(counts.shape[1]), counts])
    return {key: score(counts @ statistics) for key, statistics in runs.items()}


def compare(first, second, counts, score=mean_score, noise=0.0):
    pair = shared_runs(*(scores(runs, counts, score) for runs in (first, second)))
    return paired_test(*map(mean_over_seeds, pair), noise)


def test_p_and_interval_are_those_of_all_resamples():
    first, second = {(0, 0): means(5, 1, 8, 3)}, {(0, 0): means(3, 2, 4, 3)}
    every = np.array([np.bincount(drawn, minlength=4) for drawn in
                      itertools.product(range(4), repeat=4)], dtype=float)  # fmt: skip
    value, low, high, p = compare(first, second, every)
    drawn = compare(first, second, resample(4, 40_000, generator()))
    assert value == drawn[0] == pytest.approx((2 - 1 + 4 + 0) / 4)
    assert drawn[1:] == (low, high, pytest.approx(p, abs=0.01))
    # By hand: of 2, -1, 4 and 0 four are drawn, whose sum is 5 without chance; as far from 5 as
    # 5 is from zero are the sums up to 0 and from 10 on.
    sums = [sum(values) for values in itertools.product((2, -1, 4, 0), repeat=4)]
    assert p == (1 + sum(abs(value - 5) >= 5 for value in sums)) / 257


def test_scores_of_resamples_are_those_of_sacrebleus_bootstrap():
    draw = random.Random(5)
    outputs, references = (
        [" ".join(draw.choice(WORDS) for _ in range(draw.randrange(6))) for _ in range(30)]
        for _ in range(2)
    )
    metric = CHRF()
    statistics = np.array(chrf_statistics(outputs, references), dtype=float)
    drawn = np.random.default_rng(12345).choice(30, size=(20, 30), replace=True)
    expected = [metric._compute_score_from_stats(statistics[row].sum(0)).score for row in drawn]
    counts = np.array([np.bincount(row, minlength=30) for row in drawn], dtype=float)
    assert scores({(0, 0): statistics}, counts, chrf_score)[0, 0][1:] == pytest.approx(expected)


@pytest.mark.parametrize(("correct", "differs"), [(0.9, True), (0.0, False)])
def test_the_verdict_is_that_of_sacrebleus_paired_test(correct, differs):
    from sacrebleu.significance import PairedTest

    draw = random.Random(7)
    references = [" ".join(draw.choices(WORDS[:6], k=8)) for _ in range(80)]
    baseline = [" ".join(draw.choices(WORDS[:6], k=8)) for _ in references]
    system = [ref if draw.random() < correct else " ".join(draw.choices(WORDS[:6], k=8))
              for ref in references]  # fmt: skip
    pair = [{(0, 0): np.array(chrf_statistics(outputs, references))}
            for outputs in (system, baseline)]  # fmt: skip
    *_, p = compare(*pair, resample(80, 1000, generator()), chrf_score)
    systems = [("baseline", baseline), ("system", system)]
    test = PairedTest(systems, {"chrF": CHRF()}, [references], "bs", 1000)
    expected = next(values for name, values in test()[1].items() if name != "System")[1]
    assert (p < 0.05, expected.p_value < 0.05) == (differs, differs)


def test_equal_models_seldom_differ_significantly():
    draw = generator()
    lowest = []
    for _ in range(100):
        pair = [{(0, 0): means(*draw.normal(size=60))} for _ in range(2)]
        lowest.append(compare(*pair, resample(60, 200, draw))[-1])
    assert sum(p < 0.05 for p in lowest) <= 12
    system = {(0, 0): means(3, 9, 1, 5)}
    value, *_, p = compare(system, system, resample(4, 200, draw))
    assert (value, p) == (0.0, 1.0)


def test_an_example_drawn_by_every_run_is_one_example():
    draw = generator()
    first, second = means(*draw.normal(0.1, 1, 50)), means(*draw.normal(0, 1, 50))
    counts = resample(50, 500, generator())
    once = compare({(0, 0): first}, {(0, 0): second}, counts)
    often = [{(0, run): rows for run in range(5)} for rows in (first, second)]
    assert compare(*often, counts) == pytest.approx(once)


def test_examples_of_different_runs_make_the_interval_narrower():
    draw = generator()
    half = (np.arange(200) < 100)[:, None]
    pair = []
    for values in draw.normal(size=(2, 200)):
        rows = means(*values)
        pair.append({(0, 0): np.where(half, rows, 0), (0, 1): np.where(half, 0, rows)})
    counts = resample(200, 500, generator())
    _, low, high, _ = compare(*pair, counts)
    _, low_of_run, high_of_run, _ = compare(*({(0, 0): system[0, 0]} for system in pair), counts)
    assert high - low < 0.85 * (high_of_run - low_of_run)


def test_runs_are_averaged_within_seeds_without_those_that_drew_nothing_or_are_not_shared():
    system = {(0, 0): means(1, 1), (0, 1): means(3, 3), (1, 0): means(10, 10)}
    assert mean_over_seeds(scores(system, np.ones((1, 2))))[0] == (2 + 10) / 2
    system = {(0, 0): np.array([[4.0, 1], [0, 0]]), (0, 1): np.array([[0.0, 0], [8, 1]])}
    counts = np.array([[2.0, 0], [0, 2]])
    assert mean_over_seeds(scores(system, counts)).tolist() == [6, 4, 8]
    first = {(0, 0): means(1, 2, 3), (0, 1): means(90, 90, 90)}
    assert compare(first, {(0, 0): means(1, 2, 3)}, resample(3, 50, generator()))[0] == 0


def test_the_same_names_draw_the_same_examples_for_any_systems_in_parts(monkeypatch):
    monkeypatch.setattr(significance, "_CHUNK", 50)
    texts = {name: np.arange(5.0)[:, None] + offset for offset, name in enumerate("ab")}
    systems = {name: (text, lambda totals: totals[..., 0]) for name, text in texts.items()}
    both = resampled_scores(systems, 5, "te", "length")
    alone = resampled_scores({"b": systems["b"]}, 5, "te", "length")
    assert both["b"].tolist() == alone["b"].tolist()
    assert len(both["a"]) == 1 + significance.RESAMPLES
    # Five examples are drawn, each of which has one more in the second system.
    assert set(both["b"] - both["a"]) == {5.0}
    assert resampled_scores({}, 0, "te", "length") == {}


def test_the_spread_over_seeds_is_pooled_over_models():
    # By hand: squared distances from 2 are 1 and 1, from 30 are 100, 0 and 100; one seed has none.
    spread = pooled_spread([[1, 3], [20, 30, 40], [7]])
    assert (spread.freedom, spread.deviation) == (3, pytest.approx((202 / 3) ** 0.5))
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
    draw, with_noise, without, pairs = generator(), 0, 0, 0
    for _ in range(25):
        systems = [{(seed, 0): means(*draw.normal(draw.normal(0, 1), 0.5, 40)) for seed in (0, 1)}
                   for _ in range(12)]  # fmt: skip
        counts = resample(40, 200, draw)
        levels = [[run[:, 0].mean() for run in system.values()] for system in systems]
        spread = pooled_spread(levels)
        for pair in itertools.pairwise(systems):
            noise = seed_noise(spread, [2, 2], 200, draw)
            with_noise += compare(*pair, counts, noise=noise)[-1] < 0.05
            without += compare(*pair, counts)[-1] < 0.05
            pairs += 1
    assert with_noise / pairs < 0.09
    assert without / pairs > 0.5


def test_an_effect_size_is_the_mean_difference_over_its_deviation():
    first, second = np.array([5.0, 1, 8, 3]), np.array([3.0, 2, 4, 3])
    # Differences 2, -1, 4, 0: mean 5/4, squared distances from it 9/16 + 81/16 + 121/16 + 25/16.
    assert effect_size(first, second) == pytest.approx(1.25 / (236 / 16 / 3) ** 0.5)
    assert np.isnan(effect_size(first, first)) and np.isnan(effect_size(first + 1, first))
