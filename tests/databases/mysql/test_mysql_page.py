"""The page mysql.md is correct: its set-up makes a server copyable, its module runs, its types are of the code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework.run.update.results import UpdateState
from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql import preflight
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.values.types import MAPPINGS
from framework.sources.databases.tables import TableName
from tests.support.copied_tables import copied, failures, pipeline_of
from tests.support.mysql_programs import MARIADB, MYSQL
from tests.support.mysql_servers import MysqlServer
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs/mysql.md").read_text("utf-8")
_SET_UPS = dict(zip((MARIADB, MYSQL), re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL), strict=True))


def _set_up(start: Callable[..., MysqlServer], name: str, settings: dict[str, str]) -> tuple[MysqlServer, str]:
    """Start a server with other settings, run the statements of the page, and return the connection of the page."""
    server = start(name, settings)
    server.query("CREATE DATABASE shop")
    server.query("CREATE TABLE shop.orders (id INT PRIMARY KEY, name VARCHAR(20))")
    for statement in filter(None, map(str.strip, _SET_UPS[name].split(";"))):
        server.query(statement)
    (uri,) = re.findall(r"```yaml\nbank: (.*?)\n```", PAGE)
    return server, uri.replace("3306", str(server.port)).replace("mariadb:", f"{name.partition('-')[0]}:")


@pytest.mark.parametrize("name", [MARIADB, MYSQL])
def test_the_set_up_leaves_no_finding(own_server: Callable[..., MysqlServer], name: str) -> None:
    """The user of the page has all rights, and the log has all that is needed."""
    broken = {"binlog-row-metadata": "MINIMAL"} | ({"binlog-format": "MIXED"} if name == MARIADB else {})
    _, uri = _set_up(own_server, name, broken)
    with Session(Connection(name="bank", uri=uri)) as session:
        assert preflight.check(session, [TableName(schema="shop", table="orders")]) == ()


def test_the_module_of_the_page_copies_its_tables(
    own_server: Callable[..., MysqlServer], interpreting: SparkSession, tmp_path: Path
) -> None:
    """As the user of the page, with its connection."""
    server, uri = _set_up(own_server, MARIADB, {})
    server.query("INSERT INTO shop.orders VALUES (1, 'one'), (2, NULL)")
    (tmp_path / "connections.yml").write_text(f"bank: {uri}\n", "utf-8")
    (module,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    pipeline = pipeline_of(interpreting, tmp_path, module)
    result = pipeline.run()
    assert (result.state, failures(result)) == (UpdateState.COMPLETED, {})
    assert copied(pipeline, "orders") == [(1, "one"), (2, None)]


def test_the_page_has_every_type() -> None:
    """The table of types has the lines of the code, in their order."""
    lines = [f"| {', '.join(each.types)} | {each.spark} | {each.note} |" for each in MAPPINGS]
    assert "\n".join(lines) in PAGE
