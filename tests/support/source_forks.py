"""The process whose forks are PySpark's processes, see `forked_sources.py`. It ends with its standard input."""

from __future__ import annotations

import ast
import encodings.idna
import gc
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from contextlib import suppress

import pandas as pd
import pyspark.sql.streaming.python_streaming_source_runner as runner
import pyspark.sql.worker.create_data_source
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker

import framework.sources.databases.formats
import framework.sources.databases.postgres.chunks.snapshot_source
import framework.sources.databases.postgres.dialect
import framework.sources.databases.postgres.log.changes_source
import framework.sources.databases.streams.changes_stream
import framework.sources.databases.streams.snapshot_stream
from tests.support.forked_sources import TASKS

# What the processes need; PyArrow imports pandas for the first array.
_IMPORTED = (encodings.idna, framework, pd, pyspark)
_PYSPARK = os.path.dirname(pyspark.__file__)  # noqa: PTH120 - as in `sys.path`
# An installed package names its dialects in its metadata, as this folder does.
_ENTRY_POINTS = f"{os.path.dirname(__file__)}/entry_points"  # noqa: PTH120 - as in `sys.path`
_PATH = [path for path in sys.path if path not in ("", os.getcwd())]  # noqa: PTH109 - as Python wrote it
_PATH.append(_ENTRY_POINTS)


def main(address: str) -> None:
    """Fork for each call until standard input ends."""
    del sys.modules[runner.__name__]  # each fork runs it as its main module
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as calls:
        calls.bind(address)
        calls.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while sys.stdin not in (ready := select.select([calls, sys.stdin], [], [])[0]):
            assert ready
            line, _ = calls.accept()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # NumPy has threads, which no fork uses
                process = os.fork()
            if process == 0:
                calls.close()
                sys.exit(_answer(line))
            line.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG) != (0, 0):  # those that have ended
                    pass


def _answer(line: socket.socket) -> int:
    """Run the source as the process that called, and return its exit code."""
    length, streams, _, _ = socket.recv_fds(line, 10, 3)
    call = b""
    while len(call) < int(length):
        call += line.recv(int(length) - len(call))
    (module, *arguments), environment, folder = ast.literal_eval(call.decode("utf-8", "surrogateescape"))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    # PySpark's archives have what is imported already; each process would read their lists of files several times.
    sys.path[:] = [folder, *(path for path in given if path and not path.startswith(_PYSPARK)), *_PATH]
    sys.argv = [module, *arguments]
    end = signal.SIGTERM if module == TASKS else signal.SIGKILL
    threading.Thread(target=_end_with, args=(line, end), daemon=True).start()
    os.register_at_fork(after_in_child=line.close)  # the end of a fork is that of this process only
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - Python's own end of a main module
        traceback.print_exc()
        code = 1
    with suppress(OSError):
        line.send(bytes([code & 255]))
    return code & 255


def _end_with(line: socket.socket, number: signal.Signals) -> None:
    """End when the process that called is killed; the process of tasks then ends its own forks, too."""
    with suppress(OSError):
        line.recv(1)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    main(sys.argv[1])
