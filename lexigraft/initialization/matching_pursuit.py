"""Orthogonal matching pursuit: approximate vectors by weighted sums of a few atoms."""

import numpy as np
from scipy.linalg import solve_triangular
from tqdm import tqdm

from lexigraft.initialization.similarity import highest, top_k

_SCORE_BLOCK = 1 << 25
_BASIS_BLOCK = 1 << 24
_CANDIDATE_BLOCK = 1 << 21  # every step reads all candidates again: they should fit into the cache
# Relative to a float32 vector's length; smaller residuals are rounding errors.
_ROUNDING = 1e-6


def matching_pursuit(
    targets: np.ndarray, atoms: np.ndarray, max_atoms: int, candidates: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Approximate each target by at most `max_atoms` atoms [1]_.

    Each step chooses the atom with the largest absolute inner product with the residual, then fits
    all chosen atoms by least squares. Atoms are not normalized. Returns the indices [n, k] of the
    atoms in the order in which they were chosen, -1 for none; their weights [n, k], float64, 0 for
    none; and the share [n] of each target's squared length that they miss.

    Parameters
    ----------
    targets, atoms
        float32 [n, dimensions], none of them zero, and [m, dimensions] with m at least 1.
    max_atoms
        Maximum number of atoms per target; limited to the number of candidates and of dimensions.
    candidates
        Consider only this many atoms, with the largest absolute inner products with the target.

    References
    ----------
    .. [1] Pati, Rezaiifar and Krishnaprasad 1993, "Orthogonal Matching Pursuit: Recursive Function
       Approximation with Applications to Wavelet Decomposition".
    """
    n_candidates = len(atoms) if candidates is None else min(candidates, len(atoms))
    is_limited = n_candidates < len(atoms)
    k = min(max_atoms, n_candidates, atoms.shape[1])
    chosen = np.full((len(targets), k), -1, dtype=np.int64)
    weights, residuals = np.zeros((len(targets), k)), np.zeros(len(targets))
    rows_scored = max(1, _SCORE_BLOCK // len(atoms))
    rows_pursued = _CANDIDATE_BLOCK // n_candidates if is_limited else _BASIS_BLOCK // k
    rows_pursued = max(1, min(rows_scored, rows_pursued // atoms.shape[1]))
    starts = range(0, len(targets), rows_scored)
    for start in tqdm(starts, desc="matching pursuit", unit=" blocks", disable=None):
        block = np.arange(len(targets))[start : start + rows_scored]
        nearest = top_k(np.abs(targets[block] @ atoms.T), n_candidates) if is_limited else None
        for offset in range(0, len(block), rows_pursued):
            part = block[offset : offset + rows_pursued]
            if nearest is None:
                chosen[part], weights[part], residuals[part] = _pursue(targets[part], atoms, k)
                continue
            atoms_of_part = nearest[offset : offset + rows_pursued]
            columns, weights[part], residuals[part] = _pursue(
                targets[part], atoms[atoms_of_part], k
            )
            chosen[part] = np.where(
                columns < 0, -1, np.take_along_axis(atoms_of_part, columns, axis=1)
            )
    return chosen, weights, residuals


def _pursue(
    targets: np.ndarray, atoms: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run all steps for one block of targets; returns the same arrays as `matching_pursuit`."""
    n, dimensions = targets.shape
    targets_index, is_shared = np.arange(n), atoms.ndim == 2
    chosen = np.full((n, k), -1, dtype=np.int64)
    # Chosen atoms as an orthonormal basis: atoms[chosen[i]].T = basis[i].T @ triangle[i].
    basis = np.zeros((n, k, dimensions), dtype=np.float32)
    triangle = np.tile(np.eye(k), (n, 1, 1))
    shares = np.zeros((n, k))
    residual = targets.astype(np.float32)
    norms = np.linalg.norm(targets, axis=1)
    tried_atoms = np.zeros((n, k), dtype=np.int64)
    for step in range(k):
        scores = residual @ atoms.T if is_shared else (atoms @ residual[:, :, None])[:, :, 0]
        np.abs(scores, out=scores)
        scores[targets_index[:, None], tried_atoms[:, :step]] = -1
        best_atoms = tried_atoms[:, step] = highest(scores)
        directions = (atoms[best_atoms] if is_shared else atoms[targets_index, best_atoms]).astype(
            np.float32
        )
        lengths = np.linalg.norm(directions, axis=1)
        # Orthogonalize twice: once leaves rounding errors for atoms close to earlier ones.
        for _ in range(2):
            projected = basis[:, :step] @ directions[:, :, None]
            directions -= (basis[:, :step].transpose(0, 2, 1) @ projected)[:, :, 0]
            triangle[:, :step, step] += projected[:, :, 0]
        heights = np.linalg.norm(directions, axis=1)
        # Atoms within the span of earlier ones add nothing, and a matched target needs none.
        is_open = np.linalg.norm(residual, axis=1) > _ROUNDING * norms
        is_added = (heights > _ROUNDING * lengths) & is_open
        triangle[:, :step, step] *= is_added[:, None]
        directions *= np.where(is_added, 1 / np.where(is_added, heights, 1), 0)[:, None]
        triangle[:, step, step] = np.where(is_added, heights, 1)
        chosen[:, step] = np.where(is_added, best_atoms, -1)
        basis[:, step] = directions
        shares[:, step] = np.einsum("ij,ij->i", directions, residual)
        residual -= directions * shares[:, step, None].astype(np.float32)
    weights = solve_triangular(triangle, shares[:, :, None])[:, :, 0]
    return chosen, weights, np.square(np.linalg.norm(residual, axis=1) / norms)
