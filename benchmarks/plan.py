"""How long a plan takes: by the formula alone (at most 3 s), and with simulated collections (at most 30 s).

Run with ``python benchmarks/plan.py``. Nothing that is compiled counts: each is made once before.
"""

import time
from typing import Any

from timing import show, shown

import adobest_pp as ad

SETTINGS: tuple[dict[str, Any], ...] = (
    {"theta": "uneven", "categories": 10, "epsilon": 1.0, "half_width": 0.01},
    {"theta": "uneven", "categories": 10, "people": 50_000, "half_width": 0.02},
    {"theta": "uneven", "categories": 20, "people": 500_000, "half_width": 0.02},
    {"theta": "sparse", "categories": 10, "people": 2000, "epsilon": 1.0},
    {"theta": "sparse", "categories": 10, "people": 2000, "half_width": 0.03},
    {"theta": "sparse", "categories": 20, "epsilon": 1.0, "half_width": 0.015},
)


def main() -> None:
    """Print the table."""
    rows = []
    ad.plan("sparse", people=300, epsilon=1.0, categories=5, random_seed=1, progressbar=False)
    for setting in SETTINGS:
        began = time.perf_counter()
        made = ad.plan(**setting, random_seed=1, progressbar=False)
        seconds = time.perf_counter() - began
        methods = sorted(set(made.table["method"].values.tolist()))
        setting_in_words = ", ".join(f"{name} {value}" for name, value in setting.items())
        rows.append([setting_in_words, ", ".join(methods), shown("{:.1f}", seconds), made.recommended])
    show("plans", ["plan", "by", "seconds", "recommended"], rows)


if __name__ == "__main__":
    main()
