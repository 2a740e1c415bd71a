"""Orthogonal matching pursuit: a vector as a weighted sum of a few atoms, chosen one by one.

Pati, Rezaiifar and Krishnaprasad 1993. Each step takes the atom with the largest inner product with
what is left over, in absolute value, and fits all chosen atoms to the vector anew.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular
from tqdm import tqdm

from lexigraft.initialization.top_k import top_k

_SCORES_AT_ONCE = 1 << 25
_BASIS_AT_ONCE = 1 << 24
_OWN_AT_ONCE = 1 << 21  # every step reads them all again: numbers that a cache holds
# Of a float32 vector's length; what is left below it is rounding.
_ROUNDING = 1e-6


def matching_pursuit(
    targets: np.ndarray, atoms: np.ndarray, most: int, candidates: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Approximate each target by at most a number of atoms.

    Atoms are taken as they are, longer ones sooner; with atoms of one length this is the textbook
    rule. A target that is reached before the last step takes no further atoms.

    Parameters
    ----------
    targets, atoms
        float32 [n, dimensions] and [m, dimensions] with m at least 1.
    most
        Number of atoms for each target; never more than there are candidates or dimensions.
    candidates
        How many atoms of a target's steps look at: those with the largest inner products with the
        target itself. None for all.

    Returns
    -------
    chosen : ndarray of int
        [n, k], indices of the atoms in the order in which they were taken, -1 where none was.
    weights : ndarray
        [n, k], float64, 0 where none was.
    """
    looked_at = len(atoms) if candidates is None else min(candidates, len(atoms))
    few = looked_at < len(atoms)
    k = min(most, looked_at, atoms.shape[1])
    chosen = np.full((len(targets), k), -1, dtype=np.int64)
    weights = np.zeros((len(targets), k))
    height = max(1, _SCORES_AT_ONCE // len(atoms))
    low = _OWN_AT_ONCE // looked_at if few else _BASIS_AT_ONCE // k
    low = max(1, min(height, low // atoms.shape[1]))
    starts = range(0, len(targets), height)
    for start in tqdm(starts, desc="matching pursuit", unit=" blocks", disable=None):
        block = np.arange(len(targets))[start : start + height]
        near = top_k(np.abs(targets[block] @ atoms.T), looked_at) if few else None
        for cut in range(0, len(block), low):
            part = block[cut : cut + low]
            if near is None:
                chosen[part], weights[part] = _pursue(targets[part], *_among_all(atoms), k)
                continue
            own = near[cut : cut + low]
            found, weights[part] = _pursue(targets[part], *_among_own(atoms[own]), k)
            chosen[part] = np.where(found < 0, -1, np.take_along_axis(own, found, axis=1))
    return chosen, weights


Products = Callable[[np.ndarray], np.ndarray]  # [n, dimensions] -> [n, number of atoms]
Picked = Callable[[np.ndarray], np.ndarray]  # [n] -> [n, dimensions]


def _among_all(atoms: np.ndarray) -> tuple[Products, Picked]:
    """Inner products with atoms [m, dimensions] that all targets share, and one for each target."""
    return lambda rows: rows @ atoms.T, lambda best: atoms[best]


def _among_own(atoms: np.ndarray) -> tuple[Products, Picked]:
    """The same with atoms [n, m, dimensions] of each target's own."""
    return (
        lambda rows: (atoms @ rows[:, :, None])[:, :, 0],
        lambda best: atoms[np.arange(len(best)), best],
    )


def _pursue(
    targets: np.ndarray, products: Products, picked: Picked, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """One block of targets, all steps: `chosen` and `weights` as above."""
    n, dimensions = targets.shape
    every = np.arange(n)
    chosen = np.full((n, k), -1, dtype=np.int64)
    # Chosen atoms as an orthonormal basis: atoms[chosen[i]].T = basis[i].T @ triangle[i].
    basis = np.zeros((n, k, dimensions), dtype=np.float32)
    triangle = np.tile(np.eye(k), (n, 1, 1))
    shares = np.zeros((n, k))
    left_over = targets.astype(np.float32)
    reached = _ROUNDING * np.linalg.norm(targets, axis=1)
    tried = np.zeros((n, k), dtype=np.int64)
    for step in range(k):
        scores = products(left_over)
        np.abs(scores, out=scores)
        scores[every[:, None], tried[:, :step]] = -1
        best = tried[:, step] = scores.argmax(axis=1)
        direction = picked(best).astype(np.float32)
        length = np.linalg.norm(direction, axis=1)
        # Twice, since once leaves rounding where an atom lies close to those before it.
        for _ in range(2):
            projected = basis[:, :step] @ direction[:, :, None]
            direction -= (basis[:, :step].transpose(0, 2, 1) @ projected)[:, :, 0]
            triangle[:, :step, step] += projected[:, :, 0]
        height = np.linalg.norm(direction, axis=1)
        # Atoms within the span of those before them add nothing, nor does any to what is reached.
        adds = (height > _ROUNDING * length) & (np.linalg.norm(left_over, axis=1) > reached)
        triangle[:, :step, step] *= adds[:, None]
        direction *= np.where(adds, 1 / np.where(adds, height, 1), 0)[:, None]
        triangle[:, step, step] = np.where(adds, height, 1)
        chosen[:, step] = np.where(adds, best, -1)
        basis[:, step] = direction
        shares[:, step] = np.einsum("ij,ij->i", direction, left_over)
        left_over -= direction * shares[:, step, None].astype(np.float32)
    weights = np.zeros((n, k))
    for i in range(n):
        weights[i] = solve_triangular(triangle[i], shares[i])
    return chosen, weights
