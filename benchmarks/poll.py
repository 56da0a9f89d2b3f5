"""The device in JavaScript: how long a draw and an audit take. ``--small`` only prints.

Targets: a draw at K = 50 below 5 ms, the audit of a design with 4K sets at K = 50 below 500 ms.
"""

import json
import shutil
import subprocess
import sys
from tempfile import TemporaryDirectory

import numpy as np
from timing import show

import adobest_pp as ad
from adobest_pp.device import read_device, write_device
from adobest_pp.mechanisms import PublishedQuestion

K = 50
RECORD = "--small" not in sys.argv
PROGRAM = """
import { readQuestion } from "./adobest.js";
import { readFileSync } from "node:fs";
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const timed = (run) => { const start = performance.now(); run(); return performance.now() - start; };
const rows = JSON.parse(readFileSync(0, "utf8")).map((text) => {
  let question;
  const first = timed(() => { question = readQuestion(text, { epsilon: 1 }); });
  const draw = timed(() => question.privatize(0));
  const read = Array.from({ length: 20 }, () => timed(() => readQuestion(text, { epsilon: 1 })));
  const draws = Array.from({ length: 500 }, (_, i) => timed(() => question.privatize(i % question.categories.length)));
  return [first, median(read), draw, median(draws), Math.max(...draws)];
});
console.log(JSON.stringify(rows));
"""


def design() -> ad.SetFamily:
    """Return a design with 4K sets: every shift of four sets, with weights that rounding leaves unequal."""
    rng = np.random.default_rng(1)
    bases = [[0], [0, 5, 11, 17, 30], list(range(13)), list(range(0, 40, 2))]
    sets = [sorted((member + shift) % K for member in base) for base in bases for shift in range(K)]
    return ad.SetFamily(sets, np.repeat(rng.random(4) + 0.1, K) * (1 + 1e-11 * rng.random(4 * K)), 1.0)


def device(folder: str) -> None:
    """Print times in Node: the first reading and draw of a process, and medians when the code is warm."""
    asked = {
        "SRR": (ad.SRR(K, 1.0), None),
        "subset selection": (ad.SubsetSelection(K, 1.0), None),
        "Hadamard response": (ad.HadamardResponse(K, 1.0), None),
        "RRRR, 5 in the subset": (ad.RRRR(K, 1.0), tuple(range(5))),
        "design of 4K sets": (design(), None),
    }
    labels = tuple(f"category {x}" for x in range(K))
    texts = [PublishedQuestion(0, mechanism, labels, subset).to_json() for mechanism, subset in asked.values()]
    write_device(folder)
    node = shutil.which("node")
    if node is None:
        print("Node is not installed: the device is not timed")
        return
    command = [node, "--input-type=module", "--eval", PROGRAM]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True, cwd=folder)
    headings = [
        "question, K = 50",
        "first reading and audit, ms",
        "warm, ms",
        "first draw, ms",
        "warm, ms",
        "longest, ms",
    ]
    times = zip(asked, json.loads(done.stdout), strict=True)
    show("device", headings, [[name, *(f"{value:.2f}" for value in row)] for name, row in times], RECORD)


def main() -> None:
    with TemporaryDirectory() as folder:
        device(folder)
        print(f"adobest.js has {len(read_device()):,} bytes")


if __name__ == "__main__":
    main()
