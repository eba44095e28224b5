"""PySpark's accumulator server, which each session starts and no update needs."""

from __future__ import annotations

from threading import Thread

from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer


def tame_accumulators() -> None:
    """Keep PySpark's accumulator server from printing a traceback and from delaying the end of a command.

    It prints a traceback when the JVM ends before this process. Its `shutdown` waits up to half a second, the poll
    interval of `socketserver`, so a thread does the waiting. The server of a Unix socket still waits, because it
    deletes a file.
    """
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
    original = AccumulatorTCPServer.shutdown
    if original.__module__ == __name__:
        return

    def shutdown(self: AccumulatorTCPServer) -> None:
        Thread(target=original, args=(self,), name="end of accumulators", daemon=True).start()

    AccumulatorTCPServer.shutdown = shutdown  # type: ignore[method-assign]
