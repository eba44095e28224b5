"""SQL Server passes the suite of dialects on a stand-in, by change data capture."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from framework.sources.databases.source_session import LogName
from framework.testing.dialect_conformance import DialectConformance, EngineUnderTest, TypeCase
from tests.support.sqlserver.database import Database


class StandIn:
    """A database of the stand-in."""

    schema = "dbo"
    number = "int"
    rows = 3000  # of which a chunk has at least 1000
    chunk_options = {"chunkBytes": "1", "maxChunksPerTrigger": "1"}  # noqa: RUF012 - constant
    types = (
        TypeCase(type="bit", literals=("1", "0")),
        TypeCase(type="tinyint", literals=("255", "0")),
        TypeCase(type="bigint", literals=("9223372036854775807", "-9223372036854775808")),
        TypeCase(type="decimal(38, 9)", literals=("'12345678901234567890123456789.123456789'", "'-0.000000001'")),
        TypeCase(type="money", literals=("'922337203685477.5807'", "'-0.0001'")),
        TypeCase(type="float", literals=("0.1", "1e300", "-0.0")),
        TypeCase(type="nvarchar(50)", literals=("N''", "N'Grüße \"日本\" \\ / '")),
        TypeCase(type="date", literals=("'0001-01-01'", "'9999-12-31'")),
        TypeCase(type="datetime", literals=("'1753-01-01 00:00:00.003'", "'9999-12-31 23:59:59.997'")),
        TypeCase(type="datetime2(6)", literals=("'0001-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'")),
        TypeCase(type="datetime2(7)", literals=("'2026-03-29 02:30:00.1234560'",)),
        TypeCase(type="datetime2(0)", literals=("'2026-03-29 02:30:00'",)),
        TypeCase(
            type="datetimeoffset(6)",
            literals=("'2026-03-29 02:30:00.000001 +01:00'", "'1900-01-01 00:00:00.000000 -14:00'"),
        ),
        TypeCase(type="time(7)", literals=("'23:59:59.9999999'", "'00:00:00.0000000'")),
        TypeCase(type="uniqueidentifier", literals=("'6F9619FF-8B86-D011-B42D-00C04FC964FF'",)),
        TypeCase(type="varbinary(20)", literals=("0x", "0x00FF")),
    )

    def __init__(self, folder: Path, parameters: str = "") -> None:
        self.database = Database(folder / "server")
        self.options = {"connection": "shop", "connectionsFolder": str(folder)}
        uri = f"sqlserver-stand-in://local/{quote(str(folder / 'server'), safe='')}{parameters}"
        (folder / "connections.yml").write_text(f"shop: {uri}\n", "utf-8")

    def execute(self, *statements: str) -> None:
        """Run statements; the capture job follows each of them."""
        self.database.execute(*statements)

    def lose_log(self, log: LogName) -> None:
        """Let the clean-up job remove all changes."""
        del log
        self.database.clean_up(self.database.captured)

    def replace(self) -> None:
        """Restore the database."""
        self.database.restore()


class TestStandIn(DialectConformance):
    """Change data capture on the stand-in."""

    @pytest.fixture
    def engine(self, tmp_path: Path) -> EngineUnderTest:
        """An empty database."""
        return StandIn(tmp_path)
