"""The Spark session of a pytest worker: all workers of a run share one JVM.

Half of the CPU time of a JVM's first minute goes to compiling what it runs. The first worker that needs Spark starts
the JVM and a gateway server for each other worker. A worker has its own session, and so its own settings, temporary
views and streams. It shares the cores, the memory and the catalog of tables.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework.engine.jvm.gateway import forget_session
from framework.session import spark_session
from framework.session.keeper_client.client import Attachment
from framework.session.spark_session import start_session, stop_session
from tests.support.forked_sources import forked_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.2
_FACTORY_MODE = "spark.sql.codegen.factoryMode"


@contextmanager
def worker_session(folder: Path, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield the session of this worker.

    Args:
        folder: a folder that the workers of a run share.
        conf: the settings of the JVM and its sessions.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker:
        session = start_session(app_name="sluice tests", master="local[2]", spark_conf=conf)
        with forked_sources(session):
            yield session
        stop_session(session)
        return
    shared = _SharedJvm(folder / "jvm")
    with shared.locked():
        gateway = shared.gateway_of(worker)
        session = shared.start(worker, conf) if gateway is None else shared.attach(worker, gateway, conf)
    # PySpark's processes are those of one worker, and have its name (`reader_processes.py`).
    session.sparkContext.environment["PYTEST_XDIST_WORKER"] = worker
    with forked_sources(session):
        yield session
    if gateway is None:
        shared.wait_for_others()
        stop_session(session)
    else:
        forget_session()
        shared.user_of(worker).unlink()


@dataclass(frozen=True, slots=True)
class _SharedJvm:
    """The JVM of a run: `gateways.json` has the address of each worker, `<worker>.user` the process that uses it."""

    folder: Path

    @property
    def addresses(self) -> Path:
        return self.folder / "gateways.json"

    def user_of(self, worker: str) -> Path:
        return self.folder / f"{worker}.user"

    @contextmanager
    def locked(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            flock(lock, LOCK_EX)
            yield

    def gateway_of(self, worker: str) -> Mapping[str, Any] | None:
        """The gateway server of a worker; None if the JVM has none, such as for a worker that replaces another one."""
        if not self.addresses.exists():
            return None
        found: Mapping[str, Mapping[str, Any]] = json.loads(self.addresses.read_text("utf-8"))
        return found.get(worker)

    def start(self, worker: str, conf: Mapping[str, str]) -> SparkSession:
        """Start a JVM, with a gateway server for each other worker if there is none yet."""
        memory = {"spark.driver.memory": "4g"}
        session = start_session(app_name="sluice tests", master="local[2]", spark_conf={**conf, **memory})
        jvm: Any = session._jvm
        if not self.addresses.exists():
            # Delta reads its logs without the settings of a session. The threads of a gateway inherit this one.
            session.sparkContext.setLocalProperty(_FACTORY_MODE, conf[_FACTORY_MODE])
            found = {}
            for number in range(int(os.environ["PYTEST_XDIST_WORKER_COUNT"])):
                if f"gw{number}" != worker:
                    server = jvm.org.apache.spark.api.python.Py4JServer(session.sparkContext._jsc.sc().conf())
                    server.start()
                    found[f"gw{number}"] = {"port": server.getListeningPort(), "secret": server.secret()}
            self.addresses.write_text(json.dumps(found), "utf-8")
        return session

    def attach(self, worker: str, gateway: Mapping[str, Any], conf: Mapping[str, str]) -> SparkSession:
        """Return a new session in the JVM of another worker."""
        self.user_of(worker).write_text(str(os.getpid()), "utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spark_session, "attach", lambda _: Attachment.open(None, gateway))  # type: ignore[arg-type]
            return start_session(app_name="sluice tests", master="local[2]", spark_conf=conf)

    def wait_for_others(self) -> None:
        """Return when no other worker uses the JVM."""
        while True:
            with self.locked():
                if not any(_is_alive(int(user.read_text("utf-8"))) for user in self.folder.glob("*.user")):
                    self.addresses.unlink(missing_ok=True)
                    return
            time.sleep(_POLL_SECONDS)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
