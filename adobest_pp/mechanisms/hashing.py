"""xxHash32 of categories: a hash that is the same on every platform.

A category is hashed as its decimal digits in ASCII, as `pure-ldp` and `multi-freq-ldpy` do
(``xxhash.xxh32(str(x), seed=seed).intdigest()``), so that their answers can be read here.

References
----------
.. [1] Y. Collet, xxHash: fast digest algorithm, specification of XXH32.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["hash_categories", "xxh32"]

_PRIME1, _PRIME2, _PRIME3, _PRIME4, _PRIME5 = (
    np.uint32(prime) for prime in (2654435761, 2246822519, 3266489917, 668265263, 374761393)
)


def hash_categories(seeds: NDArray[np.uint32], n_categories: int) -> NDArray[np.uint32]:
    """Return the hash of every category under every seed, of shape (n, K)."""
    hashes = np.empty((len(seeds), n_categories), dtype=np.uint32)
    for category in range(n_categories):
        hashes[:, category] = xxh32(str(category).encode(), seeds)
    return hashes


def xxh32(text: bytes, seeds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return XXH32 of a text of fewer than 16 bytes under each seed."""
    if len(text) >= 16:
        raise ValueError(f"text must be shorter than 16 bytes, got {len(text)}")
    with np.errstate(over="ignore"):
        state = np.asarray(seeds, dtype=np.uint32) + _PRIME5 + np.uint32(len(text))
        whole = len(text) // 4 * 4
        for start in range(0, whole, 4):
            word = np.uint32(int.from_bytes(text[start : start + 4], "little"))
            state = _rotated(state + word * _PRIME3, 17) * _PRIME4
        for byte in text[whole:]:
            state = _rotated(state + np.uint32(byte) * _PRIME5, 11) * _PRIME1
        state = (state ^ (state >> np.uint32(15))) * _PRIME2
        state = (state ^ (state >> np.uint32(13))) * _PRIME3
        return np.asarray(state ^ (state >> np.uint32(16)), dtype=np.uint32)


def _rotated(state: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return np.asarray((state << np.uint32(bits)) | (state >> np.uint32(32 - bits)))
