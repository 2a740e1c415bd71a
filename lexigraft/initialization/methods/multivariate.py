"""Multivariate: new rows from a normal distribution with the source rows' full covariance."""

import numpy as np

from lexigraft.initialization.interface import RandomInitializer
from lexigraft.initialization.matrix import Matrix, row_covariance, row_mean
from lexigraft.initialization.options import number


class Multivariate(RandomInitializer):
    """N(mean, covariance_scale · covariance) of the source rows, without padding rows [1]_ [2]_.

    Parameters
    ----------
    covariance_scale
        Factor on the covariance, at least 0. With 1e-5 the rows stay close to the mean and
        therefore in the convex hull of the source rows.

    References
    ----------
    .. [1] Mundra et al. 2024 (CW2V), "An Empirical Comparison of Vocabulary Expansion and
       Initialization Approaches for Language Models", section 4.4 and appendix F.
    .. [2] Lee, Hong, Moon and Lim 2025 (SALT), "Semantic Aware Linear Transfer by Recycling
       Pre-trained Language Models for Cross-lingual Transfer", section 4.2.
    """

    distribution = "N(mean, {covariance_scale:g} · covariance) of the source rows"
    covariance_scale: float = number(1.0)

    def _shaped(self, matrix: Matrix, rows: np.ndarray) -> np.ndarray:
        ids = self.pair_.source_ids
        mean = row_mean(matrix, ids)
        covariance = self.covariance_scale * row_covariance(matrix, ids, mean)
        variances, axes = np.linalg.eigh(covariance)
        # With fewer rows than dimensions some variances are zero, and rounding makes them negative.
        deviations = np.sqrt(np.maximum(variances, 0))
        # The symmetric root is unique, while the signs of axes depend on the LAPACK library.
        rows = rows @ ((axes * deviations) @ axes.T)
        rows += mean
        return rows
