"""What the benchmarks of databases ask of a database: one table of 12 columns and about 170 bytes, and its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class Source(Protocol):
    """A database that runs.

    Attributes:
        name: of the database, for readers.
        letters: what the names of its figures end with.
        uri: the connection.
        driver: the Maven coordinate of its JDBC driver.
        bare: the bare processes that read it, in words.
        receiver: the program that receives its log without Sluice, in words.
    """

    name: str
    letters: str
    uri: str
    driver: str
    bare: str
    receiver: str

    @property
    def dlt_uri(self) -> str:
        """The connection as SQLAlchemy takes it."""
        ...

    def table(self, name: str) -> str:
        """The table with its schema."""
        ...

    def fill(self, name: str, rows: int) -> None:
        """Create a table of so many rows, with keys from 1 on."""
        ...

    def insert(self, first: int, last: int) -> None:
        """Insert rows with these keys into the table `events`, in one transaction."""
        ...

    def write_timed(self, first: int, inserted: int, updated: int) -> None:
        """Insert rows with the time, and update some of them, in one transaction."""
        ...

    def jdbc_options(self) -> Mapping[str, str]:
        """The options of Spark's JDBC reader, but for the table and its partitions."""
        ...

    def bare_reader(self, pool: ProcessPoolExecutor) -> Callable[[Path], object]:
        """The bare processes, which read the table `even` by chunks into a folder."""
        ...

    def plan_seconds(self, name: str) -> float:
        """The seconds of planning the chunks of a table."""
        ...

    def chunk_bytes(self, name: str, chunks: int) -> tuple[int, int]:
        """The size of chunks with which a table has about so many, and how many it has."""
        ...

    def rows_read(self) -> int:
        """The rows of the table `even` that the server has given to its clients so far, or to its executor."""
        ...

    def begin_receiver(self) -> None:
        """Let the receiver begin here."""
        ...

    def receive(self) -> None:
        """Receive the log from the last end to here, to /dev/null."""
        ...

    def end_receiver(self) -> None:
        """Let the log be removed."""
        ...


Open = Callable[[], AbstractContextManager[Source]]
"""Starts a server."""
