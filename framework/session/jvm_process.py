"""The JVM process of a session, and PySpark's gateway to it.

The gateway is set in `SparkContext`, so PySpark never starts one itself. The JVM's output goes to an
unnamed file, so that Spark's log is not displayed, but its last lines can be reported when it fails.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from framework.engine.jvm.gateway import JavaGateway, adopt_gateway, connect_gateway, launched_gateway
from framework.engine.jvm.java_errors import Py4JError
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError
from framework.foundation.resource_faults import free_space, resource_condition
from framework.foundation.secrets.masked_stream import masked
from framework.foundation.wording import printable_lines
from framework.session.java import Java
from framework.session.jvm_options import GatewayCommand, user_options
from framework.session.private_arguments import option_file, properties_file

if TYPE_CHECKING:
    from framework.engine.jvm.gateway import JavaGateway


_CHUNK = 1 << 16
_LAST_WORDS_SECONDS = 2.0
_COMPLETE = re.compile(rb".*[\r\n]", re.DOTALL)


_POLL_SECONDS = 0.01
_START_SECONDS = 180.0
_END_SECONDS = 20.0
_DEFERRED = 5
"""Niceness: a thread with 0 gets three times as much of a busy core."""
_LAST_WORDS_BYTES = 4000
_LAST_WORDS_LINES = 6
_LEAST_BYTES = 1 << 20
_MAIN_FAILED = b'Exception in thread "main"'
"""Then the JVM has no session, and its other threads go on for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """A JVM that this process started.

    Args:
        process: the process of the JVM.
        gateway: PySpark's gateway to it.
        said: the file of its output; None if the output goes to the terminal.
        patience_seconds: the time it may take to end before it is killed.
    """

    process: subprocess.Popen[bytes]
    gateway: JavaGateway
    said: IO[bytes] | None
    patience_seconds: float = _END_SECONDS

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def end(self) -> None:
        """End the JVM by closing its standard input; kill it if it does not end in time.

        Its gateway is closed afterwards: Py4J closes the stream of a connection before its socket, and waits for ever
        for a thread that reads from it, unless the JVM has closed its side.
        """
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(timeout=self.patience_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with suppress(Py4JError, OSError):
            self.gateway.shutdown()
        if self.said is not None:
            self.said.close()


def start_local_jvm(command: GatewayCommand, spark_home: str, clock: Clock, *, verbose: bool) -> Jvm:
    """Start a JVM with a command of `jvm_options` and connect PySpark to it.

    Raises:
        OperationError: SPARK_NOT_STARTED, with the last lines of the JVM's output.
    """
    said = None if verbose else tempfile.TemporaryFile()  # noqa: SIM115 - the JVM outlives this function
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder, _output_to(said) as output:
        connection = Path(folder, "connection")
        _check_space(folder)
        process = subprocess.Popen(  # noqa: S603 - the Java that was found
            [*command.options, *option_file(Path(folder), command.users), command.main],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            # Ctrl-C on the terminal must reach only this process, which then stops its queries in order.
            process_group=0,
            env={
                **os.environ,
                **_pyspark_of_workers(spark_home),
                "SPARK_CONNECT_MODE": "0",
                "PYTHONHASHSEED": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
            },
        )
        with ExitStack() as stack:  # also after Ctrl-C: a JVM whose main thread has failed does not end with us
            stack.callback(process.wait)
            stack.callback(process.kill)
            _wait_for(connection, command.program, process, said, clock)
            stack.pop_all()
        port, secret = _read_connection(connection)
    return Jvm(process=process, gateway=adopt_gateway(connect(port, secret), process), said=said)


def _check_space(folder: str) -> None:
    """Raise DISK_FULL if a folder has not even space for the first libraries and the output of a JVM.

    Such a JVM can't say what it lacks.
    """
    if shutil.disk_usage(folder).free < _LEAST_BYTES:
        place = tempfile.gettempdir()
        raise OperationError("DISK_FULL", place=f"The temporary folder {place}", problem=free_space([place]))


def _wait_for(
    connection: Path, program: str, process: subprocess.Popen[bytes], said: IO[bytes] | None, clock: Clock
) -> None:
    """Wait until a JVM has written how to connect to it.

    Raises:
        OperationError: SPARK_NOT_STARTED; DISK_FULL and its like, if it can't write that file.
    """
    deadline = clock.monotonic() + _START_SECONDS
    while not connection.is_file():
        has_failed = said is not None and _MAIN_FAILED in os.pread(said.fileno(), _LAST_WORDS_BYTES, 0)
        if has_failed or process.poll() is not None or clock.monotonic() > deadline:
            raise _not_started(program, process, said, has_failed=has_failed)
        clock.sleep(_POLL_SECONDS)


def _pyspark_of_workers(spark_home: str) -> dict[str, str]:
    """Return the variable by which Python workers get Spark's own PySpark; {} if they have the same one installed.

    Spark puts PySpark's archive of sources before the installed package, and each worker process compiles its modules
    again: 0.6 s of CPU time. A worker has the package if it runs this interpreter, which installs packages there.
    """
    installed = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    is_same = os.environ.get("PYSPARK_PYTHON") == sys.executable and Path(spark_home).parent in installed
    return {} if is_same else {"SPARK_HOME": spark_home}


def defer_optimizing_compiler(pid: int, proc: Path = Path("/proc")) -> None:
    """Lower the priority of the JVM's optimizing compiler, on Linux: it takes a tenth of a first update otherwise.

    On few cores its threads compete with the update, and most of what they compile is not used again if the update is
    short. In a long one they get idle time, and a quarter of a core while all are busy. Java itself has such an option
    for root only.
    """
    for thread in sorted((proc / str(pid) / "task").glob("*")):
        with suppress(OSError):
            if (thread / "comm").read_text(encoding="utf-8", errors="replace").startswith("C2 "):
                usual = os.getpriority(os.PRIO_PROCESS, int(thread.name))
                os.setpriority(os.PRIO_PROCESS, int(thread.name), usual + _DEFERRED)


def start_submitted_jvm(settings: Mapping[str, str], java: Java, *, verbose: bool) -> Jvm:
    """Start the JVM by spark-submit, which supports spark-env.sh, cluster managers and packages.

    Args:
        settings: the settings of the session.
        java: the Java to run; spark-env.sh may name another one.
        verbose: show the JVM's output.

    Raises:
        OperationError: SPARK_NOT_STARTED, with the last lines of the JVM's output.
    """
    said = None if verbose else tempfile.TemporaryFile()  # noqa: SIM115 - the JVM outlives this function
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder, _output_to(said) as output:
        try:
            with _variables(**java.environment, PYSPARK_SUBMIT_ARGS=_submit_arguments(Path(folder), settings)):
                gateway: Any = launched_gateway(output)
        except PySparkException as problem:
            raise OperationError(
                "SPARK_NOT_STARTED", java=java.program, failure="ended", output=last_words(said)
            ) from problem
    return Jvm(process=gateway.proc, gateway=adopt_gateway(gateway, gateway.proc), said=said)


def _submit_arguments(folder: Path, settings: Mapping[str, str]) -> str:
    """Return the arguments of spark-submit, with the settings in a private file, the user's last.

    The user's options of Java have a file of their own, because spark-submit starts Java with them as arguments.
    """
    users = user_options(settings)
    java = {**settings, "spark.driver.extraJavaOptions": " ".join(option_file(folder, users))} if users else settings
    kept = {key: value for key, value in java.items() if not users or key != "spark.driver.defaultJavaOptions"}
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    if "--properties-file" in given:  # spark-submit reads one file only
        return f"{shlex.join(part for key, value in kept.items() for part in ('--conf', f'{key}={value}'))} {given}"
    return f"{shlex.join(properties_file(folder, kept))} {given}"


def _output_to(said: IO[bytes] | None) -> AbstractContextManager[int]:
    """Return the descriptor for the output of a JVM: a file, or one that is printed."""
    return shown_output() if said is None else nullcontext(said.fileno())


def last_words(said: IO[bytes] | None) -> str:
    """Return the last lines of a JVM's output; a verbose JVM has displayed them already."""
    if said is None:
        return "see above."
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - _LAST_WORDS_BYTES))
    lines = [line.strip() for line in said.read().decode(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-_LAST_WORDS_LINES:]) or "none."


def _not_started(
    java: str, process: subprocess.Popen[bytes], said: IO[bytes] | None, *, has_failed: bool
) -> OperationError:
    code = process.poll()
    process.kill()
    process.wait()
    words = last_words(said)
    full = resource_condition(words) if has_failed else None
    if full is not None:
        return OperationError(full, place=f"The temporary folder {tempfile.gettempdir()}", problem=words)
    if has_failed:
        return OperationError("SPARK_NOT_STARTED", java=java, failure="failed", output=words)
    failure = f"did not respond for {_START_SECONDS:.0f} seconds" if code is None else f"ended with code {code}"
    return OperationError("SPARK_NOT_STARTED", java=java, failure=failure, output=words)


def _read_connection(file: Path) -> tuple[int, str]:
    """Return the port and the secret in the format of PythonGatewayServer: an int, then a length and UTF-8."""
    content = file.read_bytes()
    port, length = struct.unpack("!ii", content[:8])
    return port, content[8 : 8 + length].decode()


def connect(port: int, secret: str) -> JavaGateway:
    """Connect PySpark to a running JVM by the two environment variables that PySpark reads."""
    with _variables(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
        return connect_gateway()


@contextmanager
def _variables(**values: str) -> Iterator[None]:
    """Set environment variables inside the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def shown_output() -> Iterator[int]:
    """Yield a descriptor for the output of a process that the block starts; a thread prints it to standard error.

    A line is printed when it is complete, so that no secret is cut in two. If the block raises, all that was written
    is printed before.
    """
    reader, writer = os.pipe()
    thread = threading.Thread(target=_print_until_end, args=(reader,), name="output of the JVM", daemon=True)
    thread.start()
    has_started = False
    try:
        yield writer
        has_started = True
    finally:
        os.close(writer)  # the process has its own
        if not has_started:
            thread.join(_LAST_WORDS_SECONDS)


def _print_until_end(descriptor: int) -> None:
    stream, left = masked(sys.stderr), b""
    with os.fdopen(descriptor, "rb", buffering=0) as output, suppress(OSError, ValueError):  # standard error is closed
        while chunk := output.read(_CHUNK):
            left += chunk
            match = _COMPLETE.match(left)
            if match is not None:
                left = left[match.end() :]
                stream.write(_shown(match[0]))
                stream.flush()
        stream.write(_shown(left))
        stream.flush()


def _shown(output: bytes) -> str:
    """Return output as lines; those that replace each other, of a progress bar, follow each other."""
    return printable_lines(output.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n"))
