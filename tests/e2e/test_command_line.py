"""`sluice` as a process, from a new project to its results, with Spark."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.session_room import MASTER, REFUSED, Room, in_use, opened_room, runs, until
from tests.support.command_line import SLUICE, environment, result_of, sluice

PROGRESS_LINE = re.compile(r"\d\d:\d\d:\d\d  \w+: .+|\d\d:\d\d:\d\d  [\w ]+: .+")

BAD_MODULE = """
from framework import pipelines as dp

@dp.materialized_view
def totals():
    return spark.read.table("ordres")

@dp.table
def orders():
    return spark.readStream.table("nowhere")
"""
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


def test_a_command_imports_no_library_for_a_question_of_pyspark(warm: Room) -> None:
    """Those of data frames and of notebooks take as long as all else that a command with a session does."""
    done = warm.sluice("run", *MASTER, PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert (done.returncode, "framework.pipeline" in imported) == (0, True)
    assert imported & {"pandas", "pyarrow", "numpy", "IPython"} == set()


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
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
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


def test_the_projects_own_test_passes(warm: Room) -> None:
    """`pytest` passes in a new project."""
    done = warm.command([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"])
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_wrong_definitions_end_with_2_and_leave_nothing_behind(warm: Room) -> None:
    """All faults are reported with file and line, and no folder is created."""
    spec = warm.project("bad", BAD_MODULE)
    before = files_of(warm)
    done = warm.sluice("run", *spec, *MASTER)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Did you mean" in done.stderr
    for line in (6, 10):
        assert f"bad.py:{line}" in done.stderr
    assert "Traceback" not in done.stderr
    assert files_of(warm) == before


def files_of(room: Room) -> list[str]:
    """All files and folders of the project but those of Python."""
    found = room.folder.rglob("*")
    return sorted(str(path) for path in found if "__pycache__" not in path.parts and ".pyc" not in path.suffixes)


def interrupt(room: Room, options: tuple[str, str], number: signal.Signals) -> Any:
    """Start an update, send it a signal when its flow has committed a batch, and return its code and its outputs."""
    command = [*SLUICE, "run", *options, *MASTER, "--param", "nap=2000", "-o", "json"]
    checkpoints = room.folder / ".sluice" / "slow" / "checkpoints"
    before = len(list(checkpoints.rglob("commits/*")))
    with subprocess.Popen(
        command, cwd=room.folder, env=room.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and len(list(checkpoints.rglob("commits/*"))) <= before:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        process.send_signal(number)
        out, said = process.communicate(timeout=120)
    return process.returncode, json.loads(out), said


def test_ctrl_c_and_sigterm_cancel_and_the_next_update_goes_on(warm: Room) -> None:
    """A canceled update ends with its signal's code and CANCELED; after the next update every row exists once.

    Ctrl-C comes to a command with a JVM of its own, because a process uses the session of the folder: the command names
    that process. SIGTERM comes to one that uses the session.
    """
    for number in range(6):
        warm.write(f"numbers/{number:02}.json", f'{{"n": {number}}}\n')
    spec = warm.project("slow", SLOW_MODULE, configuration={"numbers.data": f"{warm.folder}/numbers", "nap": "0"})
    used = warm.status()["commands"]
    with in_use(warm):
        cold = interrupt(warm, spec, signal.SIGINT)
    assert warm.status()["commands"] == used
    in_session = interrupt(warm, spec, signal.SIGTERM)
    for number, (code, result, _) in ((signal.SIGINT, cold), (signal.SIGTERM, in_session)):
        assert (code, result["state"]) == (128 + number, "CANCELED")
        assert [flow["state"] for flow in result["flows"]] == ["STOPPED"]
    assert f"{REFUSED} process {os.getpid()} (pytest a-test) uses it." in cold[2].splitlines()
    events = result_of(warm.sluice("events", *spec, "--type", "update_progress", "-o", "json"))
    states = [event["details"]["update_progress"]["state"] for event in events]
    assert states.count("CANCELED") == 2
    assert result_of(warm.sluice("run", *spec, *MASTER, "-o", "json"))["state"] == "COMPLETED"
    rows = result_of(warm.sluice("sql", "SELECT n FROM numbers ORDER BY n", *spec, *MASTER, "-o", "json"))
    assert [row["n"] for row in rows] == list(range(6))


def test_a_stopped_session_leaves_nothing(warm: Room) -> None:
    """After `stop` no process and no socket is left, and a second `stop` says so."""
    done = warm.sluice("session", "stop")
    assert done.returncode == 0
    assert not warm.socket.exists()
    until(lambda: not any(map(runs, warm.processes())), "the end of the stopped session")
    assert warm.sluice("session", "stop").stdout.startswith("No session runs for this folder")
