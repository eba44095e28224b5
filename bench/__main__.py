"""`python -m bench [letters] [--pairs N]`: run benchmarks, print their figures, keep them in RESULTS.md.

`python -m bench continuous` runs those of continuous updates, which take minutes in place of pairs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from bench import (
    append,
    auto_cdc,
    continuous,
    deploys,
    idle,
    latest,
    loading,
    scale,
    side_by_side,
    start_up,
    warm,
    whole_process,
)
from bench.measure import Measure
from bench.results import render_line, save_measures
from bench.warm_up import fill_caches
from framework.session.java import find_java

BENCHMARKS: dict[str, tuple[Callable[[int], list[Measure]], int]] = {
    "a": (side_by_side.measure, 3),
    "b": (idle.measure, 1),
    "c": (scale.measure, 3),
    "d": (append.measure, 5),
    "f": (start_up.measure, 5),
    "g": (deploys.measure, 5),
    "h": (loading.measure, 5),
    "i": (auto_cdc.measure_batches, 5),
    "j": (auto_cdc.measure_load, 3),
    "k": (auto_cdc.measure_growth, 3),
    "l": (auto_cdc.measure_drift, 1),
    "m": (auto_cdc.measure_history, 3),
    "n": (latest.measure, 3),
    "t": (warm.measure, 3),
    "u": (auto_cdc.measure_large_batches, 3),
    "v": (side_by_side.measure_warm, 3),
    "w": (whole_process.measure, 2),
}


def main(arguments: list[str]) -> int:
    """Run the requested benchmarks; returns 1 if a goal is missed.

    Spark's own launcher gets another Java where it can't run the one of Sluice.
    """
    os.environ.update(find_java().environment)
    if arguments[:1] == ["continuous"]:
        fill_caches()
        return continuous.main(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("letters", nargs="*", help=f"of {', '.join(BENCHMARKS)} (c measures e too); none: all")
    parser.add_argument("--pairs", type=int, help="how many runs of each side")
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.letters) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}")
    fill_caches()
    measures = []
    for letter in chosen.letters or BENCHMARKS:
        run, pairs = BENCHMARKS[letter]
        found = run(chosen.pairs or pairs)
        for measure in found:
            print(render_line(measure), flush=True)
        save_measures(found)
        measures += found
    return 0 if all(measure.met for measure in measures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
