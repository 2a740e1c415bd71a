"""Gaussian: each new row from one normal distribution around zero, whatever the source rows are.

Paper 004, section 4.4, `Random`.
"""

import numpy as np

from lexigraft.initialization.interface import DrawnRows
from lexigraft.initialization.matrix import Matrix
from lexigraft.initialization.options import above_zero


class Gaussian(DrawnRows):
    """N(0, variance · I).

    Parameters
    ----------
    variance
        Of every coordinate, above 0. The paper writes N(0, 0.02 I); where 0.02 is meant as the
        deviation, as models are initialized before pretraining, it is 0.0004.
    """

    def __init__(self, variance: float = 0.02) -> None:
        self.variance = above_zero("gaussian", "variance", variance)

    @property
    def distribution(self) -> str:
        """What the rows are drawn from, in words."""
        return f"N(0, {self.variance:g} I)"

    def _draw(self, matrix: Matrix, draws: np.random.Generator) -> np.ndarray:
        rows = draws.standard_normal((len(self.pair_.new_ids), matrix.shape[1]))
        rows *= np.sqrt(self.variance)
        return rows
