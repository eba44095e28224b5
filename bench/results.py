"""The figures on disk: `results.json` for the next run, `RESULTS.md` for people."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.measure import Measure
from framework.session.java import find_java

Kept = dict[str, dict[str, Any]]

_FOLDER = Path(__file__).parent
_JSON = _FOLDER / "results.json"
_MARKDOWN = _FOLDER / "RESULTS.md"
_HEAD = (
    "# Results of the benchmarks",
    "",
    "`make bench` and `python -m bench continuous` write this file. The docstring of each module in this folder",
    "describes its benchmark. Variants that are compared run alternately on one machine (A B A B); a ratio is the",
    "median of the ratios of the pairs. `load` is the machine's load average over the last 15 minutes: if it is well",
    "above the number of cores, other processes were running.",
    "",
    "| | measured | figure | goal | met | of | date | load |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
)


def save_measures(measures: Sequence[Measure]) -> None:
    """Store the figures, replacing earlier ones of the same benchmarks."""
    kept: Kept = json.loads(_JSON.read_text("utf-8")) if _JSON.exists() else {}
    environment = describe_environment()
    for letter in {measure.benchmark for measure in measures}:
        rows = [measure.to_row() for measure in measures if measure.benchmark == letter]
        kept[letter] = {"environment": environment, "measures": rows}
    _JSON.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n", encoding="utf-8")
    _MARKDOWN.write_text(render_markdown(kept), encoding="utf-8")


def describe_environment() -> dict[str, str]:
    """The machine, the versions and the date."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}",
        "load": f"{os.getloadavg()[2]:.1f}",
        "versions": ", ".join(
            [
                f"Python {platform.python_version()}",
                f"Java {find_java().version}",
                *(f"{package} {version(package)}" for package in ("pyspark", "delta-spark", "sluice-spark")),
            ]
        ),
    }


def render_line(measure: Measure) -> str:
    """A figure as one line for the terminal."""
    sign = "<=" if measure.at_most else ">="
    verdict = "met" if measure.met else "MISSED"
    figure = f"{measure.value:8.2f} {measure.unit:<3}"
    judged = f"{figure} goal {sign} {measure.goal:g}: {verdict:<6}"
    return f"({measure.benchmark}) {judged} {measure.what} [{measure.detail}]"


def render_markdown(kept: Kept) -> str:
    """All figures as a page, each with where and when it was measured."""
    lines = [*_HEAD]
    for entry in (kept[letter] for letter in sorted(kept)):
        environment = entry["environment"]
        for measure in (Measure(**row) for row in entry["measures"]):
            figure = f"{measure.value:.2f} {measure.unit}"
            goal = f"{'≤' if measure.at_most else '≥'} {measure.goal:g}"
            verdict = "yes" if measure.met else "**no**"
            cells = [measure.benchmark, measure.what, figure, goal, verdict, measure.detail]
            lines.append("| " + " | ".join([*cells, environment["date"], environment["load"]]) + " |")
    machines = {f"{entry['environment']['machine']}; {entry['environment']['versions']}" for entry in kept.values()}
    return "\n".join([*lines, "", *(f"Machine: {machine}." for machine in sorted(machines)), ""])
