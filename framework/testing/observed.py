"""What tests do with their pipelines, as lines of JSON that `sluice test` reads; each process writes its own file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.declare.specs import DatasetKind
from framework.foundation.errors import GraphErrors, SluiceError
from framework.foundation.locations import SourceLocation
from framework.record.events import EventType
from framework.record.reader import read_events
from framework.views.testing import Part, TestedPart

if TYPE_CHECKING:
    import pytest

    from framework.sandbox.sandbox import Sandbox

_WITHOUT_ROWS = {DatasetKind.TEMPORARY_VIEW, DatasetKind.SINK, DatasetKind.FOREACH_BATCH_SINK}
_RAN = {"COMPLETED", "IDLE", "FAILED"}


def write_outcome(
    folder: str, item: pytest.Item, report: pytest.TestReport, excinfo: pytest.ExceptionInfo[Any] | None
) -> None:
    """Write the outcome of a test."""
    error = None if excinfo is None else excinfo.value
    outcome = {
        "test": item.nodeid,
        "outcome": report.outcome,
        "seconds": round(report.duration, 3),
        "condition": error.condition if isinstance(error, SluiceError) else None,
        "is_definition": isinstance(error, GraphErrors),
    }
    _write(folder, {"outcome": outcome})


def write_observed(folder: str, sandbox: Sandbox) -> None:
    """Write what a test's updates ran, what it compared, and which expectations failed."""
    try:
        parts = [*observed_parts(sandbox)]
    except SluiceError:  # the modules are invalid, as the test has reported
        return
    _write(folder, *({"part": asdict(each)} for each in parts))


def observed_parts(sandbox: Sandbox) -> Iterator[TestedPart]:
    """Yield each declared dataset, flow and expectation, and whether the updates of a sandbox cover it.

    Raises:
        GraphErrors: the modules are invalid.
    """
    registry, name = sandbox.pipeline.definitions.registry, sandbox.pipeline.spec.name
    ran, failed = _updated(sandbox)
    updated = {str(flow.target) for flow in registry.flows if str(flow.name) in ran}
    for dataset in registry.datasets:
        full, where = str(dataset.name), _text(dataset.location)
        if dataset.kind not in _WITHOUT_ROWS:
            yield TestedPart(
                pipeline=name, part=Part.DATASET, name=full, dataset=full, location=where,
                is_updated=full in updated, is_covered=dataset.name in sandbox.compared,
            )  # fmt: skip
        for expectation in dataset.expectations:
            yield TestedPart(
                pipeline=name, part=Part.EXPECTATION, name=expectation.name, dataset=full,
                location=_text(expectation.location) or where, is_covered=(full, expectation.name) in failed,
            )  # fmt: skip
    views = {each.name for each in registry.datasets if each.kind is DatasetKind.TEMPORARY_VIEW}
    for flow in (each for each in registry.flows if each.target not in views):
        is_covered = str(flow.name) in ran
        yield TestedPart(
            pipeline=name, part=Part.FLOW, name=str(flow.name), dataset=str(flow.target),
            location=_text(flow.location), is_updated=is_covered, is_covered=is_covered,
        )  # fmt: skip


def _updated(sandbox: Sandbox) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the flows that ran in a sandbox, and the expectations that rows failed, with their datasets."""
    ran, failed = set(), set()
    for event in read_events(sandbox.pipeline.storage, type=EventType.FLOW_PROGRESS):
        details = event.details[EventType.FLOW_PROGRESS.value]
        if details["status"] in _RAN and event.origin.flow_name:
            ran.add(event.origin.flow_name)
        for counts in details.get("data_quality", {}).get("expectations", ()):
            if counts["failed_records"]:
                failed.add((counts["dataset"], counts["name"]))
    return ran, failed


def _text(location: SourceLocation | None) -> str | None:
    """Return a location as text, below the working folder relative to it."""
    if location is None:
        return None
    file, folder = Path(location.file), Path.cwd()
    return f"{file.relative_to(folder) if file.is_relative_to(folder) else file}:{location.line}"


def _write(folder: str, *values: dict[str, Any]) -> None:
    path = Path(folder) / f"{os.getpid()}.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(value) + "\n" for value in values)
