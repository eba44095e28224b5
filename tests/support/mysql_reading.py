"""A process that reads the log of the table `d.t` to its end, or tells where it is now: `URI FOLDER [POSITION]`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.changes_source import ChangesRequest
from framework.sources.databases.options import Options
from framework.sources.databases.streams.spool import Spool
from tests.support.mysql_servers import MysqlServer


class _Given(Options):
    """Options whose connection is given."""

    def connection(self) -> Connection:
        """Return the connection."""
        return Connection(name="bank", uri=sys.argv[1])


def call(server: MysqlServer, folder: Path, *position: str) -> Any:
    """Return the present position of a process; with a position, its rows, transactions and peak in megabytes."""
    arguments = [sys.executable, "-m", __name__, server.uri(), str(folder), *position]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    return json.loads(done.stdout)


def _main(folder: str, *position: str) -> None:
    log = ChangesRequest.of(_Given("test", {"slot": "test", "tables": "d.t"})).log(lambda: Spool(Path(folder)))
    found: Any = None
    if position:
        batch, _ = log.read_transactions(position[0], None)
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
        peak = next(line for line in lines if line.startswith("VmHWM"))
        found = [batch.rows, batch.transactions, int(peak.split()[1]) // 1024]
    else:
        found = log.start()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    _main(*sys.argv[2:])
