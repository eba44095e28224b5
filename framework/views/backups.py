"""The backups of tables, as a table, as sentences and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from framework.checkpoints.backups import Backup, StoredBackup
from framework.foundation.names import ShortNames
from framework.foundation.wording import counted
from framework.views.table import Column, Table

_COLUMNS = (
    Column(name="table", wraps=False),
    Column(name="backup", right=True),
    Column(name="made", wraps=False),
    Column(name="rows", right=True),
    Column(name="put back", right=True),
    Column(name="table against backup"),
    Column(name="path"),
)


def backups_table(backups: Sequence[StoredBackup]) -> Table:
    """Return one row for each backup."""
    short = ShortNames.of(each.backup.dataset for each in backups)
    rows = [
        (
            short(each.backup.dataset),
            str(each.backup.number),
            each.backup.made_at.replace("T", " ").partition(".")[0],
            f"{each.backup.rows:,}",
            "" if each.backup.put_back is None else f"{each.backup.put_back:,}",
            _difference(each.backup),
            each.path,
        )
        for each in backups
    ]
    return Table.of(_COLUMNS, rows)


def backup_text(backup: Backup) -> str:
    """Return the result of keeping a table's history, in one line: rows before, after, put back; the difference."""
    rows = f"{counted(backup.rows, 'row')} before"
    if backup.comparison is not None:
        rows += f", {backup.comparison.table_rows:,} now"
    put_back = "" if backup.put_back is None else f", {backup.put_back:,} put back"
    return f"{backup.dataset}: {rows}{put_back}; {_difference(backup)}"


def backups_json(backups: Sequence[StoredBackup]) -> list[dict[str, Any]]:
    """Return the backups as JSON values."""
    return [{**asdict(each.backup), "dataset": str(each.backup.dataset), "path": each.path} for each in backups]


def _difference(backup: Backup) -> str:
    found = backup.comparison
    if backup.published_version is None:
        return "its full refresh is not finished"
    if found is None:
        return "not compared yet"
    if not (found.missing or found.added or found.changed):
        return "no difference"
    counts = ((found.missing, "missing"), (found.added, "new"), (found.changed, "changed"))
    return ", ".join(f"{count:,} {word}" for count, word in counts if count)
