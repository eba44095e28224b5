"""(h) Loading a bundle of 100 and of 1,000 resources: ten times the resources take at most twelve times as long.

The same process loads one after the other, in pairs; a file for each ten resources, with variables, references, a
target's changes and presets. No Spark, no workspace.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

from bench.measure import Measure
from framework.deploy.bundle.loading import load_bundle

GROWTH_GOAL = 12.0
_FEW, _MANY = 100, 1000
_IN_A_FILE = 10
_HEAD = """\
bundle: {name: many}
include: [bundles/*.yml]
workspace: {root_path: /Workspace/Shared/many}
sync: {exclude: ["*"]}
variables:
  catalog: {default: main}
  cluster: {type: complex, default: {num_workers: 2, custom_tags: {team: data, catalog: "${var.catalog}"}}}
targets: {prod: {mode: production, presets: {tags: {target: "${bundle.target}"}}, variables: {catalog: prod}}}
"""
_PIPELINE = """\
    p{n}:
      name: p{n}
      catalog: ${{var.catalog}}
      clusters: ["${{var.cluster}}"]
      configuration: {{number: "{n}", where: "${{workspace.file_path}}/p{n}"}}
"""
_JOB = """\
    p{n}:
      name: p{n} of ${{var.catalog}}
      tasks: [{{task_key: update, pipeline_task: {{pipeline_id: "${{resources.pipelines.p{n}.id}}"}}}}]
"""
_CHANGE = """\
          p{n}: {{configuration: {{number: "{n}0"}}}}
"""


def measure(pairs: int) -> list[Measure]:
    """The ratio of both times, by the median of the pairs."""
    with tempfile.TemporaryDirectory() as folder:
        roots = [_write(Path(folder) / str(count), count) for count in (_FEW, _MANY)]
        _seconds(roots[0], _FEW)
        times = [(_seconds(roots[0], _FEW), _seconds(roots[1], _MANY)) for _ in range(pairs)]
    few, many = (median(column) for column in zip(*times, strict=True))
    detail = f"{few:.2f} s and {many:.2f} s, {pairs} pairs"
    return [
        Measure(
            benchmark="h", what=f"loading {_MANY:,} resources over {_FEW}", unit="x", goal=GROWTH_GOAL,
            value=median(long / short for short, long in times), detail=detail,
        ),
    ]  # fmt: skip


def _seconds(root: Path, count: int) -> float:
    began = time.perf_counter()
    bundle = load_bundle(root, user="ada@example.com")
    seconds = time.perf_counter() - began
    assert len(bundle.resources) == count
    assert bundle.resources[-1].depends_on, "a job names its pipeline"
    return seconds


def _write(root: Path, count: int) -> Path:
    """A bundle of so many resources, half pipelines, half jobs."""
    (root / "bundles").mkdir(parents=True)
    (root / "databricks.yml").write_text(_HEAD, encoding="utf-8")
    numbers = range(count // 2)
    for first in numbers[:: _IN_A_FILE // 2]:
        mine = range(first, first + _IN_A_FILE // 2)
        text = "resources:\n  pipelines:\n" + "".join(_PIPELINE.format(n=n) for n in mine)
        text += "  jobs:\n" + "".join(_JOB.format(n=n) for n in mine)
        text += "targets:\n  prod:\n    resources:\n      pipelines:\n" + "".join(_CHANGE.format(n=n) for n in mine)
        (root / "bundles" / f"{first:04d}.yml").write_text(text, encoding="utf-8")
    return root
