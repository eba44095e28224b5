"""PySpark's processes of a worker's session, forked from one that has imported what they need.

Spark starts a Python process for each query of a source that is written in Python, and one that forks again for each
task that runs Python. All of them import PySpark, Arrow, pandas and ours, which takes 0.3 to 0.5 s of CPU time: more
than all else that they do for a few rows. A worker's session calls a program in place of Python. For these processes it
waits for a fork of a process of the worker's, with the arguments, environment, folder and streams of the call; for all
else it becomes Python. The processes that tests start have Python itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What a Python takes from the environment when it begins.
_AS_SPARK_STARTS_THEM = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES"}
_ROOT = Path(__file__).parents[2]
SOURCES = "pyspark.sql.streaming.python_streaming_source_runner"
TASKS = "pyspark.daemon"

# `-ISE`: it needs no module of a package. Its end, also by a signal, ends the fork, which waits for it to be killed.
_PROGRAM = """#!{python} -ISE
import os, sys
arguments = sys.argv[1:]
if arguments[:1] != ["-m"] or arguments[1] not in ("{sources}", "{tasks}"):
    os.execv("{python}", ["{python}", *arguments])
import _socket
line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
line.connect("{address}")
call = repr((arguments[1:], dict(os.environ), os.getcwd())).encode("utf-8", "surrogateescape")
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
line.sendmsg([b"%10d" % len(call)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
while call:
    call = call[line.send(call):]
status = line.recv(1)
line.recv(1)
sys.exit(status[0] if status else 1)
"""


@contextmanager
def forked_sources(session: SparkSession) -> Iterator[None]:
    """Let PySpark's processes of a session of this process be forks of one process, until the block ends."""
    with TemporaryDirectory(prefix="sluice-sources-") as folder, ExitStack() as stack:
        address, program = f"{folder}/forks", Path(folder, "python")
        program.write_text(
            _PROGRAM.format(python=sys.executable, sources=SOURCES, tasks=TASKS, address=address), "utf-8"
        )
        program.chmod(0o700)
        command = [sys.executable, "-u", "-m", "tests.support.source_forks", address]
        environment = {**os.environ, **_AS_SPARK_STARTS_THEM}
        forks = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_ROOT, env=environment)
        stack.enter_context(forks)
        assert forks.stdout is not None
        assert forks.stdout.readline() == b"ready\n"
        context = session.sparkContext
        former, context.pythonExec = context.pythonExec, str(program)
        yield
        context.pythonExec = former
