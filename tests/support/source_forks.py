"""The process whose forks run streaming sources, see `forked_sources.py`. It ends with its standard input."""

from __future__ import annotations

import ast
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

import pyspark.sql.streaming.python_streaming_source_runner as runner

import framework.sources.databases.postgres.changes_source
import framework.sources.databases.postgres.snapshot_source  # noqa: F401 - what the sources need

_RUNNER = runner.__name__
_PATH = [path for path in sys.path if path not in ("", os.getcwd())]  # noqa: PTH109 - as Python wrote it


def main(address: str) -> None:
    """Fork for each call until standard input ends."""
    del sys.modules[_RUNNER]  # each fork runs it as its main module
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
    environment, folder = ast.literal_eval(call.decode("utf-8", "surrogateescape"))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    sys.path[:] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *_PATH]
    sys.argv = [_RUNNER]
    threading.Thread(target=_end_with, args=(line,), daemon=True).start()
    code = 0
    try:
        runpy.run_module(_RUNNER, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - Python's own end of a main module
        traceback.print_exc()
        code = 1
    with suppress(OSError):
        line.send(bytes([code & 255]))
    return code & 255


def _end_with(line: socket.socket) -> None:
    """End when the process that called is killed."""
    with suppress(OSError):
        line.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
