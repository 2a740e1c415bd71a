import numpy as np

from lexigraft.initialization.registry import initializer


def test_every_new_row_is_the_mean_of_all_source_tokens(byte_level, matrix):
    source, target = byte_level([]), byte_level([("a", "b"), ("c", "d")])
    rows = matrix(len(source))
    made = initializer("mean-of-all").fit(source, target).apply(rows)
    np.testing.assert_allclose(made[len(source) :], np.tile(rows.mean(0), (2, 1)), atol=1e-6)


def test_padding_rows_do_not_count(byte_level, matrix):
    source, target = byte_level([]), byte_level([("a", "b")])
    rows = matrix(len(source) + 7)
    rows[len(source) :] = 1e6
    made = initializer("mean-of-all").fit(source, target, n_source=len(rows)).apply(rows)
    np.testing.assert_allclose(made[len(source)], rows[: len(source)].mean(0), atol=1e-6)
