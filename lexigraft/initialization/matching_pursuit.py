"""Orthogonal matching pursuit: approximate vectors by weighted sums of a few atoms.

Each step chooses the atom with the largest absolute inner product with the residual, then fits all
chosen atoms to the vector by least squares.
"""

import numpy as np
from scipy.linalg import solve_triangular
from tqdm import tqdm

from lexigraft.initialization.similarity import highest, top_k

_SCORES_AT_ONCE = 1 << 25
_BASIS_AT_ONCE = 1 << 24
_OWN_AT_ONCE = 1 << 21  # every step reads all of them again, so they should fit into the cache
# Relative to a float32 vector's length; smaller residuals are rounding errors.
_ROUNDING = 1e-6


def matching_pursuit(
    targets: np.ndarray, atoms: np.ndarray, most: int, candidates: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Approximate each target by at most `most` atoms [1]_.

    Atoms are not normalized, so longer ones are preferred; with atoms of equal length this is the
    textbook rule. A target that is matched before the last step gets no further atoms. Returns the
    indices [n, k] of the atoms in the order in which they were chosen, -1 for none; their weights
    [n, k], float64, 0 for none; and the share [n] of each target's squared length that they miss.

    Parameters
    ----------
    targets, atoms
        float32 [n, dimensions], none of them zero, and [m, dimensions] with m at least 1.
    most
        Maximum number of atoms per target; limited to the number of candidates and of dimensions.
    candidates
        Number of atoms to consider for a target: those with the largest absolute inner products
        with the target itself. None for all.

    References
    ----------
    .. [1] Pati, Rezaiifar and Krishnaprasad 1993, "Orthogonal Matching Pursuit: Recursive Function
       Approximation with Applications to Wavelet Decomposition".
    """
    considered = len(atoms) if candidates is None else min(candidates, len(atoms))
    few = considered < len(atoms)
    k = min(most, considered, atoms.shape[1])
    chosen = np.full((len(targets), k), -1, dtype=np.int64)
    weights, missed = np.zeros((len(targets), k)), np.zeros(len(targets))
    height = max(1, _SCORES_AT_ONCE // len(atoms))
    low = _OWN_AT_ONCE // considered if few else _BASIS_AT_ONCE // k
    low = max(1, min(height, low // atoms.shape[1]))
    starts = range(0, len(targets), height)
    for start in tqdm(starts, desc="matching pursuit", unit=" blocks", disable=None):
        block = np.arange(len(targets))[start : start + height]
        near = top_k(np.abs(targets[block] @ atoms.T), considered) if few else None
        for cut in range(0, len(block), low):
            part = block[cut : cut + low]
            if near is None:
                chosen[part], weights[part], missed[part] = _pursue(targets[part], atoms, k)
                continue
            own = near[cut : cut + low]
            found, weights[part], missed[part] = _pursue(targets[part], atoms[own], k)
            chosen[part] = np.where(found < 0, -1, np.take_along_axis(own, found, axis=1))
    return chosen, weights, missed


def _pursue(
    targets: np.ndarray, atoms: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run all steps for one block of targets; returns `chosen`, `weights` and `missed` as above.

    Atoms are [m, dimensions], shared by all targets, or [n, m, dimensions].
    """
    n, dimensions = targets.shape
    every, shared = np.arange(n), atoms.ndim == 2
    chosen = np.full((n, k), -1, dtype=np.int64)
    # Chosen atoms as an orthonormal basis: atoms[chosen[i]].T = basis[i].T @ triangle[i].
    basis = np.zeros((n, k, dimensions), dtype=np.float32)
    triangle = np.tile(np.eye(k), (n, 1, 1))
    shares = np.zeros((n, k))
    residual = targets.astype(np.float32)
    norms = np.linalg.norm(targets, axis=1)
    tried = np.zeros((n, k), dtype=np.int64)
    for step in range(k):
        scores = residual @ atoms.T if shared else (atoms @ residual[:, :, None])[:, :, 0]
        np.abs(scores, out=scores)
        scores[every[:, None], tried[:, :step]] = -1
        best = tried[:, step] = highest(scores)
        direction = (atoms[best] if shared else atoms[every, best]).astype(np.float32)
        length = np.linalg.norm(direction, axis=1)
        # Orthogonalize twice: once leaves rounding errors for atoms close to earlier ones.
        for _ in range(2):
            projected = basis[:, :step] @ direction[:, :, None]
            direction -= (basis[:, :step].transpose(0, 2, 1) @ projected)[:, :, 0]
            triangle[:, :step, step] += projected[:, :, 0]
        height = np.linalg.norm(direction, axis=1)
        # Atoms within the span of earlier ones add nothing, and a matched target needs none.
        unreached = np.linalg.norm(residual, axis=1) > _ROUNDING * norms
        adds = (height > _ROUNDING * length) & unreached
        triangle[:, :step, step] *= adds[:, None]
        direction *= np.where(adds, 1 / np.where(adds, height, 1), 0)[:, None]
        triangle[:, step, step] = np.where(adds, height, 1)
        chosen[:, step] = np.where(adds, best, -1)
        basis[:, step] = direction
        shares[:, step] = np.einsum("ij,ij->i", direction, residual)
        residual -= direction * shares[:, step, None].astype(np.float32)
    weights = solve_triangular(triangle, shares[:, :, None])[:, :, 0]
    return chosen, weights, np.square(np.linalg.norm(residual, axis=1) / norms)
