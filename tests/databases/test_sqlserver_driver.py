"""The driver of SQL Server itself: it loads, connects, and names what it lacks."""

from __future__ import annotations

import socket
from ctypes.util import find_library

import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.dialects import open_source
from framework.sources.databases.sqlserver.faults import named_error

SHOP = Connection(name="shop", uri="sqlserver://joe:hunter22@db/shop")


@pytest.mark.skipif(find_library("ltdl") is None, reason="libltdl7 is not installed")
def test_the_driver_loads_and_accepts_every_parameter() -> None:
    """A closed port is unreachable: the driver has read the connection string and tried to connect."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        uri = (
            f"sqlserver://joe:hunter22@127.0.0.1:{held.getsockname()[1]}/shop?loginTimeout=1&encrypt=yes&packetSize=4096"
            "&trustServerCertificate=yes&applicationIntent=ReadOnly&multiSubnetFailover=no&hostNameInCertificate=db"
        )
        with pytest.raises(SourceError, match="DATABASE_UNREACHABLE") as caught:
            open_source(Connection(name="shop", uri=uri))
    assert "TCP Provider" in caught.value.what
    assert "hunter22" not in caught.value.render()


def test_a_system_library_that_is_missing_is_named() -> None:
    """With the package that has it; the driver itself only says that it was not loaded."""
    text = "libltdl.so.7: cannot open shared object file: No such file or directory"
    error = named_error(text, SHOP, table=None, connecting=True)
    assert error.condition == "SQLSERVER_DRIVER_NOT_LOADED"
    assert "libltdl.so.7" in error.what
    assert "apt-get install libltdl7`" in error.remedy
    general = named_error("Failed to load the driver. Please read", SHOP, table=None, connecting=True)
    assert general.condition == "SQLSERVER_DRIVER_NOT_LOADED"
