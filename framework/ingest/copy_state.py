"""How the rows of a copy were made, as an update records it before any of its flows runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from framework.declare.copy_definition import CopiedColumn, CopyDefinition
from framework.foundation.names import QualifiedName
from framework.ingest.drift import drift_error


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyState:
    """A copy, by its name: its source may change in the code.

    Args:
        target: the copy.
        definition: how its rows are made.
        log_versions: the versions of the columns in the log whose changes have such rows.
        rebuild: number of the checkpoint generation of the snapshot flow with which the copy begins empty; 0 if rows of
            another definition never had to leave it.
    """

    target: QualifiedName
    definition: CopyDefinition
    log_versions: tuple[int, ...]
    rebuild: int = 0

    def followed_by(self, now: CopyDefinition) -> CopyState | None:
        """Return the state in which rows of a later definition stay beside the present ones; None if they can't."""
        if drift_error(self.definition, now) is not None:
            return None
        versions = tuple(dict.fromkeys((*self.log_versions, *self._versions_between(now), now.log_version)))
        return CopyState(target=self.target, definition=now, log_versions=versions, rebuild=self.rebuild)

    def _versions_between(self, now: CopyDefinition) -> list[int]:
        """Return the versions of rows that have the first of several new columns without the later ones.

        None if a number is missing: a column that is gone may have had the name of a later one, and other values.
        """
        most = self.definition.most_columns
        between = [(number, version) for number, version in now.earlier_versions if number > most]
        is_gapless = [number for number, _ in between] == list(range(most + 1, now.most_columns))
        return [version for _, version in between] if is_gapless else []

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return {
            "target": [self.target.catalog, self.target.schema, self.target.table],
            "definition": {
                name: value for name, value in asdict(self.definition).items() if name != "earlier_versions"
            },
            "log_versions": list(self.log_versions),
            "rebuild": self.rebuild,
        }


def new_copy(target: QualifiedName, definition: CopyDefinition, *, rebuild: int = 0) -> CopyState:
    """Return the state of a copy in which every row has this definition."""
    return CopyState(
        target=target, definition=definition, log_versions=(definition.log_version,), rebuild=rebuild
    )  # fmt: skip


def copy_of_json(value: Mapping[str, Any]) -> CopyState:
    """Return the state of its JSON."""
    catalog, schema, table = value["target"]
    given = value["definition"]
    columns = tuple(
        CopiedColumn(**{**each, "labels": tuple(each["labels"]), "fields": tuple(each["fields"])})
        for each in given["columns"]
    )
    return CopyState(
        target=QualifiedName(catalog=catalog, schema=schema, table=table),
        definition=CopyDefinition(**{**given, "keys": tuple(given["keys"]), "columns": columns}),
        log_versions=tuple(value["log_versions"]),
        rebuild=int(value["rebuild"]),
    )
