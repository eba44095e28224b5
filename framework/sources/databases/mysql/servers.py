"""Which server it is: MySQL or MariaDB, and its version; differences between them are asked here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_OLDEST = {True: (10, 5, 0), False: (8, 0, 14)}


@dataclass(frozen=True, slots=True)
class Server:
    """A server.

    Args:
        is_mariadb: whether it is MariaDB.
        version: its three numbers.

    Examples:
        >>> Server.of("5.5.5-10.11.19-MariaDB-log")
        Server(is_mariadb=True, version=(10, 11, 19))
        >>> Server.of("8.4.3").name
        'MySQL 8.4.3'
    """

    is_mariadb: bool
    version: tuple[int, int, int]

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the server of `SELECT VERSION()`."""
        numbers = _VERSION.findall(text.removeprefix("5.5.5-")) or [("0", "0", "0")]
        first, second, third = numbers[0]
        return cls("mariadb" in text.lower(), (int(first), int(second), int(third)))

    @property
    def name(self) -> str:
        """Its name with the version."""
        return f"{'MariaDB' if self.is_mariadb else 'MySQL'} {'.'.join(map(str, self.version))}"

    @property
    def oldest(self) -> str:
        """The oldest version that is read."""
        return ".".join(map(str, _OLDEST[self.is_mariadb]))

    @property
    def is_supported(self) -> bool:
        """Whether its log describes its tables."""
        return self.version >= _OLDEST[self.is_mariadb]

    @property
    def log_status(self) -> str:
        """The statement that says where the log ends."""
        is_new = self.version >= ((10, 5, 2) if self.is_mariadb else (8, 4, 0))
        if not is_new:
            return "SHOW MASTER STATUS"
        return "SHOW BINLOG STATUS" if self.is_mariadb else "SHOW BINARY LOG STATUS"
