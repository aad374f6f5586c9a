"""Vectors in the plane of their two principal components. Knows numbers, and nothing that they stand for."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

TINY = 1e-30  # stands in for the variance if all vectors are the same


def in_the_plane(vectors: Floats) -> tuple[Floats, Floats]:
    """Project vectors, (n, dimension), on their two principal components: (n, 2).

    Also returns the part of the variance that each component explains: (2,).
    """
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    centred = np.pad(centred, ((0, 0), (0, 2)))  # at least two components, even for a single number
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    return centred @ directions[:2].T, sizes[:2] ** 2 / max((sizes**2).sum(), TINY)
