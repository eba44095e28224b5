"""Collects the GTIDs of the transactions of a batch: most follow each other, so that runs are added at the end."""

from __future__ import annotations

from framework.sources.databases.mysql.log.gtids import MariaGtids, MySqlGtids, maria_state, state_text


class GtidRuns:
    """The transactions that were read.

    Args:
        before: those that were read before the batch, as text.
        is_mariadb: of which kind they are.
        is_known: whether `before` has all earlier ones; if it has not, it stays empty.

    Examples:
        >>> runs = GtidRuns("0-1-5", is_mariadb=True)
        >>> runs.add("0-1-6")
        >>> runs.text
        '0-1-6'
    """

    def __init__(self, before: str, *, is_mariadb: bool, is_known: bool | None = None) -> None:
        self._before = before
        self._is_mariadb = is_mariadb
        self._is_known = bool(before) if is_known is None else is_known
        self._last: dict[str, str] = {}
        self._servers: dict[str, str] = {}
        self._runs: list[tuple[str, int, int]] = []

    def add(self, gtid: str) -> None:
        """Add a transaction; one without a GTID is left out."""
        if not gtid or not self._is_known:
            return
        if self._is_mariadb:
            self._last[gtid.partition("-")[0]] = self._servers[gtid.rpartition("-")[0]] = gtid
            return
        source, _, text = gtid.rpartition(":")
        number = int(text)
        if self._runs and self._runs[-1][0] == source and self._runs[-1][2] + 1 == number:
            self._runs[-1] = (source, self._runs[-1][1], number)
        else:
            self._runs.append((source, number, number))

    def contains(self, text: str) -> bool:
        """Whether all transactions of a text were read."""
        if self._is_mariadb:
            return MariaGtids.parse(self.text).contains(MariaGtids.parse(text))
        return MySqlGtids.parse(self.text).contains(MySqlGtids.parse(text))

    def state(self, before: str) -> str:
        """Return the last transaction of each domain and server of MariaDB; empty if those before are not known."""
        if not before or not self._servers:
            return before
        return state_text(maria_state(before, *self._servers.values()))

    @property
    def text(self) -> str:
        """All transactions, as text."""
        if self._last:
            return str(MariaGtids.parse(self._before).add(",".join(self._last.values())))
        if self._runs:
            added = ",".join(f"{source}:{first}-{last}" for source, first, last in self._runs)
            return str(MySqlGtids.parse(self._before).add(added))
        return self._before
