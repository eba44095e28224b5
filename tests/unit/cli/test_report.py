"""`sluice report` writes one HTML file that is safe to mail: no scripts, no requests, no secrets."""

from __future__ import annotations

import fcntl
import re
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from framework.foundation.errors import OperationError
from framework.foundation.secrets.known_secrets import remember_secrets
from framework.graph.stored_graph import GraphStore
from framework.recovery.flow_lag import FlowHealth, FlowLag
from framework.recovery.quarantine.waiting import WaitingRows
from framework.run.update.control.lock_holder import LOCK_FILE, LockHolder, holder_text
from framework.sources.port import Lag
from tests.support.fake_pipeline import FakePipeline, graph, name
from tests.support.recorded_updates import RecordedFlow, Recorder
from tests.unit.cli.conftest import Sluice
from tests.unit.cli.test_doctor import BROKEN

HOSTILE = "<script>alert(1)</script> ' \" & \x1b[31m"
GOOD_LOAD = RecordedFlow(name="load", target="orders", metrics={"num_output_rows": 1200}, quality={"has_id": (1197, 3)})
BY_DAY = RecordedFlow(name="by_day", state="IDLE", seconds=0.0, reason="its inputs have not changed")


class _Page(HTMLParser):
    """The tags, the attributes and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag with its attributes."""
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        if data.strip() and self.tags[-1] != "style":
            self.texts.append(data.strip())


def page(path: str = "sluice-report.html") -> _Page:
    """The report that was written."""
    return _Page(Path(path).read_text("utf-8"))


def heads(found: _Page) -> list[str]:
    """The headings of the sections of a report, in order."""
    known = ["What is missing here", "Doctor", "Graph", "Updates", "Flows", "Flows by update", "Expectations", "Lag"]
    return [each for each in found.texts if each in {*known, "Datasets"}]


@pytest.fixture
def recorder(pipeline: FakePipeline) -> Recorder:
    """Writes updates into the log of the pipeline."""
    return Recorder(storage=pipeline.storage)


def test_a_pipeline_that_never_ran_has_a_report(sluice: Sluice) -> None:
    """It says that the log is empty, and has the graph and the datasets."""
    result = sluice("report")
    assert (0, "sluice-report.html: idle · no update has ended yet\n") == (result.exit_code, result.stdout)
    assert ["Doctor", "Graph", "Updates", "Datasets"] == heads(page())
    assert "Never run: the event log has no update." in page().texts
    assert "✓ shop: 2 flows examined, nothing found." in page().texts


def test_the_report_has_updates_flows_expectations_lag_and_findings(
    pipeline: FakePipeline, recorder: Recorder, sluice: Sluice
) -> None:
    """The attempts of one request are one row; the numbers are those of the events."""
    recorder.update("u-1", GOOD_LOAD, BY_DAY, user_name="ada", cause="JOB_TASK")
    failing = RecordedFlow(name="load", state="FAILED", target="orders", error="the source changed\nmore")
    for attempt in (1, 2):
        recorder.update(f"u-2{attempt}", failing, state="FAILED", request_id="r-2", attempt=attempt)
    pipeline.findings = (BROKEN,)
    pipeline.quarantined = (WaitingRows(flow="main.shop.load", rows=2, since=datetime(2026, 1, 1)),)  # noqa: DTZ001 - local
    lag = Lag(records=3, bytes=913, seconds=4.0)
    pipeline.flow_lag = (FlowLag(flow=name("load"), dataset=name("orders"), health=FlowHealth.BEHIND, lag=lag),)

    result = sluice("report", "shop.html")

    attention = "1 finding · the last update is FAILED · 2 rows in quarantine"
    assert (
        f"shop.html: idle · last update FAILED in 2.0 s, 2026-01-01 00:00 UTC\nNeeds attention: {attention}\n"
        == result.stdout
    )
    found = page("shop.html")
    assert [
        "Doctor", "Graph", "Updates", "Flows", "Flows by update", "Expectations", "Lag", "Datasets"
    ] == heads(found)  # fmt: skip
    rows = found.texts[found.texts.index("error") + 1 :]
    assert [
        "2026-01-01 00:00", "✕ FAILED", "4.0 s", "2", "1 failed", "USER_ACTION", "the source changed",
        "2026-01-01 00:00", "✓ COMPLETED", "2.0 s", "1 completed, 1 idle", "1,200", "JOB_TASK", "ada",
    ] == rows[:14]  # fmt: skip
    expectations = found.texts[found.texts.index("Expectations") :]
    assert ["orders", "has_id", "1,197", "3", "0.25 %"] == expectations[7:12]
    assert {"3", "913", "4.0 s", "behind"} <= set(found.texts[found.texts.index("Lag") :])
    assert {"main.shop.load  DELTA_SOURCE_CHANGED", "lost: 2 rows; repeated: none; read again: none"} <= {*found.texts}
    assert "failed" in found.texts  # the note on the box of `orders`


def test_an_update_without_an_end_is_lost_and_one_that_holds_the_lock_runs(
    pipeline: FakePipeline, recorder: Recorder, sluice: Sluice
) -> None:
    """Without a process that holds the lock the update was killed."""
    recorder.update("u-1", GOOD_LOAD, state=None)
    result = sluice("report", "--stored")
    assert "Needs attention: the last update is LOST" in result.stdout
    assert "? LOST" in page().texts
    holder = LockHolder(host="here", pid=1, update_id="u-1", since="")
    with Path(pipeline.storage.path(LOCK_FILE)).open("w", encoding="utf-8") as file:
        file.write(holder_text(holder))
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        assert sluice("report", "--stored").stdout == (
            "sluice-report.html: running since 2026-01-01 00:00 · no update has ended yet\n"
        )
    assert "● RUNNING" in page().texts


def test_stored_reads_only_the_storage(pipeline: FakePipeline, recorder: Recorder, sluice: Sluice) -> None:
    """Spark is not asked for anything: the graph is the stored one, and the page says what is missing."""
    recorder.update("u-1", GOOD_LOAD)
    GraphStore(pipeline.storage, "shop").write(graph(), {})
    assert 0 == sluice("report", "--stored").exit_code
    assert ["open"] == [what for what, _ in pipeline.calls]
    assert ["What is missing here", "Graph", "Updates", "Flows", "Expectations", "Datasets"] == heads(page())


def test_a_part_that_cannot_be_read_is_missing_with_its_reason(
    pipeline: FakePipeline, recorder: Recorder, sluice: Sluice
) -> None:
    """A pipeline whose code is broken has a report with its last graph and the error."""
    recorder.update("u-1", GOOD_LOAD)
    GraphStore(pipeline.storage, "shop").write(graph(), {})
    pipeline.fault = OperationError("QUERY_FAILED", cause="no table")
    assert 0 == sluice("report").exit_code
    found = page()
    assert {"Graph", "Updates", "What is missing here"} <= set(heads(found))
    assert "The graph is that of the last validate or update." in found.texts
    assert any(each.startswith("[QUERY_FAILED]") for each in found.texts)


def test_the_page_has_no_scripts_loads_nothing_and_hides_secrets(
    pipeline: FakePipeline, recorder: Recorder, sluice: Sluice
) -> None:
    """Texts of data are texts, whatever they have in them."""
    remember_secrets("hunter2-hunter2")
    flow = RecordedFlow(
        name="load", state="FAILED", target="orders", error=f"{HOSTILE} hunter2-hunter2", reason=HOSTILE
    )
    for update in ("u-1", "u-2"):
        recorder.update(update, flow, state="FAILED", user_name=HOSTILE, cause=HOSTILE)
    pipeline.findings = (replace(BROKEN, cause=HOSTILE, evidence=(HOSTILE, "hunter2-hunter2")),)
    sluice("report")
    text, found = Path("sluice-report.html").read_text("utf-8"), page()
    assert set() == {"script", "link", "iframe", "img", "object", "base", "form"} & set(found.tags)
    assert [] == [key for key, _ in found.attributes if key.startswith("on") or key in {"src", "href", "action"}]
    assert [] == re.findall(r"url\((?!#)|@import", text)
    assert "default-src 'none'; style-src 'unsafe-inline'" in [value for _, value in found.attributes]
    assert "hunter2" not in text
    assert "\x1b" not in text


def test_a_file_that_cannot_be_written_is_an_error(sluice: Sluice, tmp_path: Path) -> None:
    """Its folder does not exist."""
    result = sluice("report", str(tmp_path / "none" / "report.html"))
    assert (1, "") == (result.exit_code, result.stdout)
    assert "[REPORT_NOT_WRITABLE]" in result.stderr


def test_a_dash_is_standard_output(sluice: Sluice) -> None:
    """The page is the only output, and no file is written."""
    result = sluice("report", "-")
    assert result.stdout.startswith("<!DOCTYPE html>")
    assert not Path("sluice-report.html").exists()
