"""`sluice` as a process, from a new project to its results, with Spark."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.run.update.results import UpdateState
from tests.e2e.session_room import MASTER, Room, opened_room
from tests.support.command_line import SLUICE, environment, result_of, sluice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRESS_LINE = re.compile(r"\d\d:\d\d:\d\d  \w+: .+|\d\d:\d\d:\d\d  [\w ]+: .+")

SLOW_MODULE = """
from pyspark import pipelines as dp

@dp.table
def numbers():
    files = spark.readStream.format("json").schema("n INT").option("maxFilesPerTrigger", 1)
    rows = files.load(spark.conf.get("numbers.data"))
    return rows.selectExpr("n", "reflect('java.lang.Thread', 'sleep', bigint(%s)) AS nap" % spark.conf.get("nap"))
"""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """The folder of a new project."""
    parent = tmp_path_factory.mktemp("projects")
    assert sluice(parent, "init", "shop").returncode == 0
    with opened_room(parent / "shop") as room:
        yield room


@pytest.fixture(scope="module")
def project(room: Room) -> Path:
    """A new project."""
    return room.folder


@pytest.fixture(scope="module")
def first_run(project: Path) -> subprocess.CompletedProcess[str]:
    """The first update of the project, which starts Spark itself."""
    return sluice(project, "run", *MASTER, "-o", "json")


@pytest.fixture(scope="module")
def warm(room: Room, first_run: subprocess.CompletedProcess[str]) -> Room:
    """The project after its first update, with Spark ready for its commands."""
    assert first_run.returncode == 0, first_run.stderr
    room.start()
    return room


def test_a_new_project_runs_at_once(first_run: subprocess.CompletedProcess[str]) -> None:
    """A project of `init` completes; standard output is one JSON object, standard error contains only progress."""
    found = result_of(first_run)
    assert found["state"] == "COMPLETED"
    assert {flow["flow"]: flow["state"] for flow in found["flows"]} == {
        "main.shop.orders": "COMPLETED",
        "main.shop.customers": "COMPLETED",
        "main.shop.revenue_by_city": "COMPLETED",
    }
    assert Path(found["graph"]).read_text("utf-8").startswith("<!DOCTYPE html>")
    strangers = [line for line in first_run.stderr.splitlines() if not PROGRESS_LINE.fullmatch(line)]
    assert strangers == []


def test_a_second_run_finds_nothing_to_do(warm: Room) -> None:
    """Without new data every flow is idle, and the output says so in one sentence."""
    done = warm.sluice("run", *MASTER)
    assert done.returncode == 0
    assert "Nothing to do: 3 flows up to date" in done.stdout.splitlines()


def test_rows_come_as_json(warm: Room) -> None:
    """Queries of `sql` use the names of the datasets."""
    query = "SELECT city, orders, revenue FROM revenue_by_city ORDER BY city"
    assert result_of(warm.sluice("sql", query, *MASTER, "-o", "json")) == [
        {"city": "Boston", "orders": 2, "revenue": 60.0},
        {"city": "Helsinki", "orders": 1, "revenue": 12.25},
        {"city": "London", "orders": 3, "revenue": 75.5},
    ]


def test_a_wrong_query_is_one_paragraph(warm: Room) -> None:
    """The error has Spark's message without its stack, its log or a line of Sluice."""
    done = warm.sluice("sql", "SELECT nope FROM orders", *MASTER)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("[QUERY_INVALID] Spark cannot analyze the query: [UNRESOLVED_COLUMN")
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.usefixtures("first_run")
def test_events_and_checkpoints_need_no_spark(project: Path) -> None:
    """Data in local storage is read without a JVM: the test has no Java."""
    command = [*SLUICE, "events", "--type", "update_progress", "-o", "json"]
    without_java = {**environment(), "JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    done = subprocess.run(command, cwd=project, env=without_java, check=False, capture_output=True, text=True)
    states = [event["details"]["update_progress"]["state"] for event in result_of(done)]
    assert states[:4] == ["INITIALIZING", "SETTING_UP_TABLES", "RUNNING", "COMPLETED"]
    command = [*SLUICE, "checkpoints", "list", "-o", "json"]
    done = subprocess.run(command, cwd=project, env=without_java, check=False, capture_output=True, text=True)
    assert [(each["flow"], each["batches"]) for each in result_of(done)] == [
        ("main.shop.customers", 1),
        ("main.shop.orders", 1),
    ]


def test_the_projects_own_test_passes(project: Path) -> None:
    """`pytest` passes in a new project."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=project, env=environment(), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_wrong_definitions_end_with_2_and_leave_nothing_behind(tmp_path: Path) -> None:
    """All faults are reported with file and line, and no folder is created."""
    (tmp_path / "pipeline.yml").write_text("name: bad\nlibraries: [{file: {path: bad.py}}]\n", encoding="utf-8")
    module = """
from framework import pipelines as dp

@dp.materialized_view
def totals():
    return spark.read.table("ordres")

@dp.table
def orders():
    return spark.readStream.table("nowhere")
"""
    (tmp_path / "bad.py").write_text(module, encoding="utf-8")
    done = sluice(tmp_path, "run", *MASTER)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean" in done.stderr
    for line in (6, 10):
        assert f"bad.py:{line}" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["bad.py", "pipeline.yml"]


def interrupt(folder: Path, number: signal.Signals) -> tuple[int, Any]:
    """Start an update, send it a signal when its flow has committed a batch, and wait for its end."""
    command = [*SLUICE, "run", *MASTER, "--param", "nap=400", "-o", "json"]
    offsets = folder / ".sluice" / "slow" / "checkpoints"
    before = len(list(offsets.rglob("commits/*")))
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and len(list(offsets.rglob("commits/*"))) <= before:
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        process.send_signal(number)
        out, _ = process.communicate(timeout=120)
    return process.returncode, json.loads(out)


def test_ctrl_c_and_sigterm_cancel_and_the_next_update_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """A canceled update ends with its signal's code and CANCELED; after the next update every row exists once."""
    (tmp_path / "data").mkdir()
    for number in range(12):
        (tmp_path / "data" / f"{number:02}.json").write_text(f'{{"n": {number}}}\n', encoding="utf-8")
    spec = f"""
name: slow
libraries: [{{file: {{path: slow.py}}}}]
configuration: {{numbers.data: {tmp_path}/data, nap: "0"}}
"""
    (tmp_path / "pipeline.yml").write_text(spec, encoding="utf-8")
    (tmp_path / "slow.py").write_text(SLOW_MODULE, encoding="utf-8")
    for number in (signal.SIGINT, signal.SIGTERM):
        code, result = interrupt(tmp_path, number)
        assert (code, result["state"]) == (128 + number, "CANCELED")
        assert [flow["state"] for flow in result["flows"]] == ["STOPPED"]
    events = result_of(sluice(tmp_path, "events", "--type", "update_progress", "-o", "json"))
    states = [event["details"]["update_progress"]["state"] for event in events]
    assert states.count("CANCELED") == 2
    pipeline = Pipeline.from_spec(tmp_path / "pipeline.yml", spark=spark)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert sorted(row["n"] for row in pipeline.table("numbers").collect()) == list(range(12))
