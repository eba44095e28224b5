"""MariaDB, for the benchmarks of databases. It has no slots: whoever reads its log says where."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq

from bench.snapshot_chunks import CHUNKS
from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.chunks.boundaries import BoundaryWalker
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.tables import TableName
from tests.support.mysql_programs import MARIADB, programs_of
from tests.support.mysql_servers import MysqlServer

_SETTINGS = {"innodb-buffer-pool-size": "1G", "innodb-log-file-size": "512M", "max-binlog-size": "1G"}
_TIMEOUT_SECONDS = 900
_CHUNK_BYTES = 64 * 2**20
_COLUMNS = (
    "id BIGINT PRIMARY KEY, customer INT, amount DECIMAL(12,2), price DOUBLE, quantity SMALLINT, created TIMESTAMP(6) "
    "NULL, updated DATETIME(6), day DATE, active TINYINT(1), code VARCHAR(20), city TEXT, note TEXT"
)
_VALUES = (
    "seq, seq % 100000, (seq % 1000000) / 100.0, seq / 3.0, seq % 100, '2020-01-01' + INTERVAL seq SECOND, "
    "'2020-01-01' + INTERVAL seq MINUTE, '2020-01-01' + INTERVAL seq % 1000 DAY, seq % 2 = 0, "
    "CONCAT('code-', seq % 5000), CONCAT('city number ', seq % 300), CONCAT(MD5(seq), MD5(seq + 1))"
)


@contextmanager
def open_mariadb() -> Iterator[MariadbSource]:
    """Start a server for the block, with its data in memory if there is room."""
    with MysqlServer(programs_of(MARIADB), _SETTINGS) as server:
        server.query("CREATE DATABASE bench CHARACTER SET utf8mb4")
        yield MariadbSource(server)


class MariadbSource:
    """A server of MariaDB.

    Args:
        server: it runs, and has the database `bench`.
    """

    name, letters = "MariaDB", "46"
    driver = "org.mariadb.jdbc:mariadb-java-client:3.5.3"
    bare, receiver = "two bare connectorx processes that write Parquet", "mysqlbinlog to /dev/null"

    def __init__(self, server: MysqlServer) -> None:
        self.server = server
        self.uri = server.uri("bench")
        self._received: tuple[str, int] = ("", 0)

    @property
    def dlt_uri(self) -> str:
        """The connection as SQLAlchemy takes it."""
        return self.uri.replace("mariadb://", "mysql+pymysql://")

    def table(self, name: str) -> str:
        """The table with its schema."""
        return f"bench.{name}"

    def fill(self, name: str, rows: int) -> None:
        """Create a table of so many rows."""
        self._query(f"CREATE TABLE {name} ({_COLUMNS})")
        self._query(f"INSERT INTO {name} SELECT {_VALUES} FROM seq_1_to_{rows}")
        self._query(f"ANALYZE TABLE {name}")

    def insert(self, first: int, last: int) -> None:
        """Insert rows into `events`."""
        self._query(f"INSERT INTO events SELECT {_VALUES} FROM seq_{first}_to_{last}")

    def write_timed(self, first: int, inserted: int, updated: int) -> None:
        """Insert rows with the time, and update some of them."""
        with self.server.connect("bench", autocommit=False) as connection, connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO events (id, note, updated) "
                f"SELECT seq, 'timed', UTC_TIMESTAMP(6) FROM seq_{first}_to_{first + inserted - 1}"
            )
            last = first + updated - 1
            cursor.execute(f"UPDATE events SET updated = UTC_TIMESTAMP(6) WHERE id BETWEEN {first} AND {last}")
            connection.commit()

    def jdbc_options(self) -> Mapping[str, str]:
        """The options of Spark's JDBC reader: its dialect of MySQL, with the driver of MariaDB."""
        url = f"jdbc:mysql://127.0.0.1:{self.server.port}/bench?permitMysqlScheme"
        return {"url": url, "user": "root", "password": "", "driver": "org.mariadb.jdbc.Driver"}

    def bare_reader(self, pool: ProcessPoolExecutor) -> Callable[[Path], object]:
        """Two processes that read ranges of keys by connectorx, with exact decimals."""
        rows = int(str(self._query("SELECT MAX(id) FROM even")[0][0]))
        ends = [number * rows // CHUNKS for number in range(CHUNKS + 1)]
        ranges = list(pairwise(ends))
        return lambda folder: list(pool.map(_read_bare, [(str(folder), self.server.port, *each) for each in ranges]))

    def plan_seconds(self, name: str) -> float:
        """The seconds of planning the chunks of a table."""
        begun = time.monotonic()
        self._chunks(name, _CHUNK_BYTES)
        return time.monotonic() - begun

    def chunk_bytes(self, name: str, chunks: int) -> tuple[int, int]:
        """The size of chunks with which a table has about so many, and how many it has."""
        statement = f"SELECT data_length FROM information_schema.tables WHERE table_name = '{name}'"
        size = int(str(self._query(statement)[0][0])) // chunks
        return size, self._chunks(name, size)

    def rows_read(self) -> int:
        """The rows that the server has sent to all clients; of a walk, one for each bound."""
        time.sleep(2)  # a connection that was lost reports its counts when the server notices
        return int(str(self._query("SHOW GLOBAL STATUS LIKE 'Rows_sent'")[0][1]))

    def begin_receiver(self) -> None:
        """Remember the end of the log."""
        self._received = self.end_of_log()

    def receive(self) -> None:
        """Let `mysqlbinlog` receive the log from the last end to here, as base64: it decodes no row."""
        file, position = self._received
        self._received = self.end_of_log()
        files = [str(name) for name, *_ in self._query("SHOW BINARY LOGS") if str(name) >= file]
        arguments = [
            "mysqlbinlog", "--no-defaults", "--read-from-remote-server", "--host=127.0.0.1", "--user=root",
            f"--port={self.server.port}", "--skip-ssl", f"--start-position={position}",
            f"--stop-position={self._received[1]}", *files,
        ]  # fmt: skip
        subprocess.run(
            arguments, check=True, timeout=_TIMEOUT_SECONDS, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    def end_receiver(self) -> None:
        """Do nothing: the log is kept for no one."""

    def end_of_log(self) -> tuple[str, int]:
        """The file and the position at which the log ends now."""
        file, position, *_ = self._query("SHOW MASTER STATUS")[0]
        return str(file), int(str(position))

    def _chunks(self, name: str, size: int) -> int:
        table = TableName(schema="bench", table=name)
        with Session(Connection(name="bench", uri=self.uri)) as session:
            walker = BoundaryWalker(session, table, source_identity="bench", chunk_bytes=size)
            return walker.plan(None, most_chunks=1_000_000).batch_size

    def _query(self, statement: str) -> list[tuple[object, ...]]:
        return self.server.query(statement, database="bench")


def _read_bare(task: tuple[str, int, int, int]) -> None:
    import connectorx

    folder, port, after, upto = task
    columns = (
        "id, customer, CAST(amount AS CHAR) amount, price, quantity, created, updated, day, active, code, city, note"
    )
    query = f"SELECT {columns} FROM even WHERE id > {after} AND id <= {upto}"
    uri = f"mysql://root:@127.0.0.1:{port}/bench?prefer_socket=false"
    table = connectorx.read_sql(uri, query, protocol="binary", return_type="arrow")
    pq.write_table(table, Path(folder) / f"{after}.parquet", compression="snappy")
