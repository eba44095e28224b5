"""DLT's functions to read a dataset: `read` and `read_stream`, also spelled `readStream`.

Query functions call them after the modules are loaded, when no registry is active.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.declare.interface.call import Call, declaration
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@declaration
def read(name: str) -> DataFrame:
    """Return the rows of a dataset as a batch DataFrame: `spark.read.table(name)`.

    Raises:
        UserError: INVALID_ARGUMENT.* for an invalid name, NO_ACTIVE_SESSION if there is no active session.
    """
    call = Call(function="read", location=caller_location())
    return _session(call).read.table(call.text("name", name))


@declaration
def read_stream(name: str) -> DataFrame:
    """Return the rows of a dataset as a stream: `spark.readStream.table(name)`.

    Raises:
        UserError: INVALID_ARGUMENT.* for an invalid name, NO_ACTIVE_SESSION if there is no active session.
    """
    call = Call(function="read_stream", location=caller_location())
    return _session(call).readStream.table(call.text("name", name))


def _session(call: Call) -> SparkSession:
    """Return the session of the query function."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise call.fault("NO_ACTIVE_SESSION")
    return session
