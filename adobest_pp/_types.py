"""Short names for arrays in signatures."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Answers = NDArray[Any]
Bits = NDArray[np.uint8]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Masks = NDArray[np.bool_]
