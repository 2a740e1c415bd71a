import numpy as np

from lexigraft.initialization.registry import initializer


def test_every_new_row_is_a_bitwise_copy_of_a_source_row(many_new, matrix):
    fitted = initializer("permutation").fit(*many_new, seed=1)
    rows = matrix(len(many_new[0]))
    made = fitted.apply(rows)[fitted.new_ids]
    assert {row.tobytes() for row in made} <= {row.tobytes() for row in rows}
    assert fitted.statistics()["share_copy"] == 1.0
    assert fitted.fallbacks_ == []


def test_all_ordinary_tokens_are_drawn_about_equally_often_and_special_ones_never(many_new):
    fitted = initializer("permutation").fit(*many_new, n_source=len(many_new[0]) + 9, seed=1)
    new = fitted.weights_[fitted.new_ids]
    counts = np.asarray(new.sum(axis=0))
    (special,) = fitted.pair_.source_special_ids
    assert counts[special] == 0 and counts[len(many_new[0]) :].sum() == 0
    drawn = np.delete(counts[: len(many_new[0])], special)
    expected = 1500 / len(drawn)
    chi_square = ((drawn - expected) ** 2 / expected).sum()
    assert abs(chi_square - len(drawn)) < 5 * np.sqrt(2 * len(drawn))
