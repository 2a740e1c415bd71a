"""Gaussian: new rows from a normal distribution around zero, independent of source rows."""

import numpy as np

from lexigraft.initialization.interface import RandomInitializer
from lexigraft.initialization.matrix import Matrix
from lexigraft.initialization.options import positive


class Gaussian(RandomInitializer):
    """N(0, variance · I); `Random` in CW2V [1]_.

    Parameters
    ----------
    variance
        Variance of every coordinate, above 0. The paper writes N(0, 0.02 I); if 0.02 is meant as
        the standard deviation, as in the initialization of models before pretraining, it is 0.0004.

    References
    ----------
    .. [1] Mundra et al. 2024 (CW2V), "An Empirical Comparison of Vocabulary Expansion and
       Initialization Approaches for Language Models", section 4.4.
    """

    distribution = "N(0, {variance:g} I)"
    variance: float = positive(0.02)

    def _shaped(self, matrix: Matrix, rows: np.ndarray) -> np.ndarray:
        rows *= np.sqrt(self.variance)
        return rows
