"""A standalone Spark cluster on this machine: a master and a worker from the installed PySpark, on loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

from framework.session.java import find_java
from tests.support.settings import NO_ARCHIVE

_HOST = "127.0.0.1"
_START_SECONDS = 90
_END_SECONDS = 20


@contextmanager
def standalone_cluster(folder: Path, *, cores: int) -> Iterator[str]:
    """Start a cluster of one worker, and end all of its processes afterwards.

    Args:
        folder: for logs and the worker's files.
        cores: of the worker; an executor of one core gets a gigabyte.

    Yields:
        The master's URL.
    """
    daemon = "org.apache.spark.deploy"
    free_ports = ["--host", _HOST, "--port", "0", "--webui-port", "0"]
    with ExitStack() as processes:
        log = processes.enter_context(_running(folder / "master", [f"{daemon}.master.Master", *free_ports]))
        url = _await_line(log, r"Starting Spark master at (spark://\S+)")
        home = folder / "worker"
        size = ["--cores", str(cores), "--memory", f"{cores}g", "--work-dir", str(home / "work")]
        log = processes.enter_context(_running(home, [f"{daemon}.worker.Worker", *free_ports, *size, url]))
        _await_line(log, r"(Successfully registered) with master")
        yield url


@contextmanager
def _running(home: Path, arguments: list[str]) -> Iterator[Path]:
    """Run a Spark daemon in a separate process group; yields the path of its log."""
    home.mkdir(parents=True)
    log = home / "log"
    spark_home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark_home),
        **find_java(by_submit=True).environment,
        "SPARK_LOCAL_IP": _HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {NO_ARCHIVE}",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(spark_home / "bin" / "spark-class"), *arguments],
            cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield log
    finally:
        _end(process)


def _await_line(log: Path, pattern: str) -> str:
    """Wait for a line in the log and return the pattern's group."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if match := re.search(pattern, log.read_text(encoding="utf-8", errors="replace")):
            return match[1]
        time.sleep(0.1)
    msg = f"no {pattern!r} within {_START_SECONDS} s:\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}"
    raise TimeoutError(msg)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop the process group with SIGTERM, so that a worker stops its executors; kill it after a timeout."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_END_SECONDS)
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(timeout=_END_SECONDS)
