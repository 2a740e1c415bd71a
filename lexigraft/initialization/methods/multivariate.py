"""Multivariate: each new row from a normal distribution with the source rows' full covariance.

Paper 004, appendix F; also a baseline of paper 002.
"""

import numpy as np

from lexigraft.errors import UserError
from lexigraft.initialization.interface import DrawnRows
from lexigraft.initialization.matrix import Matrix
from lexigraft.initialization.moments import covariance_of, mean_of


class Multivariate(DrawnRows):
    """N(mean, covariance_scale · covariance) of the source rows; padding rows do not count.

    Parameters
    ----------
    covariance_scale
        Factor on the covariance, at least 0. With 1e-5 the rows stay close to the mean and with
        that in the convex hull of the source rows.
    """

    def __init__(self, covariance_scale: float = 1.0) -> None:
        number = isinstance(covariance_scale, int | float) and not isinstance(
            covariance_scale, bool
        )
        if not number or not 0 <= covariance_scale < float("inf"):
            raise UserError(
                f"option 'covariance_scale' of initializer 'multivariate': {covariance_scale!r} is "
                "no number from 0 up"
            )
        self.covariance_scale = float(covariance_scale)

    @property
    def distribution(self) -> str:
        """What the rows are drawn from, in words."""
        return f"N(mean, {self.covariance_scale:g} · covariance) of the source rows"

    def _draw(self, matrix: Matrix, draws: np.random.Generator) -> np.ndarray:
        ids = self.pair_.source_ids
        normal = draws.standard_normal((len(self.pair_.new_ids), matrix.shape[1]))
        variances, axes = np.linalg.eigh(self.covariance_scale * covariance_of(matrix, ids))
        # With fewer rows than dimensions some variances are zero, and rounding makes them negative.
        deviations = np.sqrt(np.maximum(variances, 0))
        # The symmetric root is unique: axes may differ in sign between linear algebra libraries,
        # and the rows would with them.
        rows = normal @ ((axes * deviations) @ axes.T)
        rows += mean_of(matrix, ids)
        return rows
