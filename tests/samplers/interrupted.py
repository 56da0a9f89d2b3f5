"""Started by test_interrupts: run what would take very long, interrupt it by a signal, and print how each ends."""

import os
import signal
import sys
import threading
import time

import numpy as np

import adobest_pp as ad

ENDLESS = {"draws": 5_000_000, "progressbar": False, "random_seed": 1}


SHORT = {"draws": 1, "tune": 1, "chains": 1, "progressbar": False}


def responses() -> ad.Responses:
    return ad.Responses.from_arrays(ad.SRR(4, 1.0), np.arange(200) % 4)


def simulate(**options: int) -> None:
    ad.simulate_adaptive([0.5, 0.3, 0.2], ad.AdaptiveSubset(ad.RRRR(3, 1.0)), random_seed=1, **options)


LONG = {
    "nuts": lambda: ad.sample(responses(), "nuts", **ENDLESS),
    "gibbs": lambda: ad.sample(responses(), "gibbs", **ENDLESS),
    "sgld": lambda: ad.sample(responses(), "sgld", batch_size=None, updates_per_draw=1000, **ENDLESS),
    "simulation": lambda: simulate(n_people=20_000_000),
    "final_updates": lambda: simulate(n_people=50, final_updates=200_000_000),
}


def main() -> None:
    # A signal within the first import or compilation may end in code that ignores exceptions: both come first.
    for sampler in ("nuts", "gibbs", "sgld"):
        ad.sample(responses(), sampler, **SHORT, **({"batch_size": None} if sampler == "sgld" else {}))
    simulate(n_people=50, final_updates=2)
    for name, call in LONG.items():
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        ending = "returned"
        try:
            call()
        except KeyboardInterrupt:
            ending = "KeyboardInterrupt"
        seconds = time.monotonic() - began
        before = time.process_time()
        time.sleep(0.3)
        after = "busy" if time.process_time() - before > 0.2 else "idle"
        sys.stdout.write(f"{name},{ending},{after},{threading.active_count()},{seconds}\n")


if __name__ == "__main__":
    main()
