"""`python -m bench [letters] [--pairs N]`: run benchmarks, print their figures, keep them in RESULTS.md.

`python -m bench reconcile [--rows N]` compares two tables.
`python -m bench continuous` runs those of continuous updates, which take minutes in place of pairs. `python -m bench
snapshots | changes | chunks | kills [--rows N] [--pairs N]` runs those of databases, and `mysql_snapshots |
mysql_changes | mysql_kills` the same ones on MariaDB.
`python -m bench events [--events N]` pages through an event log.
`python -m bench million [--known N]` reads new files when many are known.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from bench import (
    append,
    auto_cdc,
    changes,
    cloud_files,
    continuous,
    deploys,
    event_pages,
    idle,
    kills,
    latest,
    loading,
    many_commands,
    many_tables,
    million,
    reconcile,
    sandbox_tests,
    scale,
    side_by_side,
    snapshot_chunks,
    snapshots,
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
    "s": (sandbox_tests.measure, sandbox_tests.TESTS),
    "t": (warm.measure, 3),
    "u": (auto_cdc.measure_large_batches, 3),
    "v": (side_by_side.measure_warm, 3),
    "w": (whole_process.measure, 2),
    "x": (many_tables.measure, 5),
    "x46": (many_tables.measure_mariadb, 5),
    "y46": (many_tables.measure_all, 5),
    "y": (cloud_files.measure, 3),
    "known": (cloud_files.measure_known, 7),
    "z": (many_commands.measure, 1),
}

MANY_TABLES: dict[str, Callable[[int, int], list[Measure]]] = {
    "x": many_tables.measure,
    "x46": many_tables.measure_mariadb,
    "y46": many_tables.measure_all,
}
"""The benchmarks of many tables, whose number may be given."""

DATABASES: dict[str, tuple[Callable[[int, int], list[Measure]], int, int]] = {
    "chunks": (snapshot_chunks.measure, 3, snapshot_chunks.ROWS),
    "snapshots": (snapshots.measure, 3, snapshot_chunks.ROWS),
    "changes": (changes.measure, 3, changes.ROWS),
    "kills": (kills.measure, 5, snapshot_chunks.ROWS),
    "mysql_snapshots": (snapshots.measure_mariadb, 3, snapshot_chunks.ROWS),
    "mysql_changes": (changes.measure_mariadb, 3, changes.ROWS),
    "mysql_kills": (kills.measure_mariadb, 5, snapshot_chunks.ROWS),
}
"""The benchmark, its pairs and its rows, by name."""


def main(arguments: list[str]) -> int:
    """Run the requested benchmarks; returns 1 if a goal is missed.

    Spark's own launcher gets another Java where it can't run the one of Sluice.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users' commands don't compile all modules each time
    if arguments and arguments[0] in DATABASES:
        # No JAVA_HOME: spark-submit, which adds the JDBC driver, takes a Java that it can run.
        return _run_database(arguments[0], arguments[1:])
    os.environ.update(find_java().environment)
    if arguments[:1] == ["continuous"]:
        fill_caches()
        return continuous.main(arguments[1:])
    if arguments[:1] == ["reconcile"]:
        fill_caches()
        return reconcile.main(arguments[1:])
    if arguments[:1] == ["events"]:
        return event_pages.main(arguments[1:])
    if arguments[:1] == ["million"]:
        return million.main(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("letters", nargs="*", help=f"of {', '.join(BENCHMARKS)} (c measures e too); none: all")
    parser.add_argument("--pairs", type=int, help="how many runs of each side")
    parser.add_argument("--tables", type=int, default=0, help="of (x), (x46) and (y46); fewer for a try")
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.letters) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}")
    fill_caches()
    measures = []
    for letter in chosen.letters or BENCHMARKS:
        run, pairs = BENCHMARKS[letter]
        is_try = letter in MANY_TABLES and chosen.tables > 0
        found = MANY_TABLES[letter](chosen.pairs or pairs, chosen.tables) if is_try else run(chosen.pairs or pairs)
        for measure in found:
            print(render_line(measure), flush=True)
        if not is_try:
            save_measures(found)
        measures += found
    return 0 if all(measure.met for measure in measures) else 1


def _run_database(name: str, arguments: list[str]) -> int:
    """Run one benchmark of databases; figures of fewer rows than it is meant for are not kept."""
    run, pairs, rows = DATABASES[name]
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}")
    parser.add_argument("--pairs", type=int, default=pairs, help="how many runs of each side")
    parser.add_argument("--rows", type=int, default=rows, help="rows of the source table; fewer for a try")
    chosen = parser.parse_args(arguments)
    fill_caches()
    measures = run(chosen.pairs, chosen.rows)
    for measure in measures:
        print(render_line(measure), flush=True)
    if chosen.rows >= rows:
        save_measures(measures)
    return 0 if all(measure.met for measure in measures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
