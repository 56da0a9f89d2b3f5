"""Exponentials of a whole array at once: arithmetic that the compiler can do in all lanes, unlike calls of `math.exp`.

e^x = 2^k·e^r with k the nearest integer to x/ln 2 and |r| ≤ ln 2/2 (Cody & Waite), and e^r its Taylor polynomial of
degree 12, whose error is below half a unit in the last place. Adding 1.5·2⁵² puts k into the last bits of a double,
from where it is moved to the exponent's.
"""

import math

import numpy as np
from numba import njit

__all__ = ["write_exponentials"]

# The range in which 2^k is a normal number; what is beyond has the exponential of its end.
LOWEST, HIGHEST = -708.0, 709.0
SHIFT = 6755399441055744.0
LOG2_E = 1.4426950408889634
# ln 2 in two parts, of which the first has so few digits that its products with k are exact.
LN2_HIGH, LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
C12, C11, C10, C9, C8, C7, C6, C5, C4, C3 = (1 / math.factorial(n) for n in range(12, 2, -1))
_EXPONENT, _BIAS = np.int64(52), np.int64(1023)


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def write_exponentials(x, shifted, out):  # type: ignore[no-untyped-def]
    """Write e^x into `out`; `shifted`, of the same size, is overwritten. What is no number stays none."""
    for i in range(x.size):
        clipped = x[i]
        clipped = LOWEST if clipped < LOWEST else clipped
        clipped = HIGHEST if clipped > HIGHEST else clipped
        moved = clipped * LOG2_E + SHIFT
        whole = moved - SHIFT
        shifted[i] = moved
        r = (clipped - whole * LN2_HIGH) - whole * LN2_LOW
        high = ((((C12 * r + C11) * r + C10) * r + C9) * r + C8) * r + C7
        low = (((high * r + C6) * r + C5) * r + C4) * r + C3
        out[i] = ((low * r + 0.5) * r + 1.0) * r + 1.0
    words = shifted.view(np.int64)
    for i in range(x.size):
        words[i] = (words[i] + _BIAS) << _EXPONENT
    for i in range(x.size):
        out[i] *= shifted[i]
