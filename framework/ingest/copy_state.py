"""How the rows of a copy were made, as an update records it before any of its flows runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from framework.declare.copy_definition import CopiedColumn, CopyDefinition, StagedForm
from framework.foundation.names import QualifiedName
from framework.ingest.drift import drift_error
from framework.ingest.names import name_json, name_of_json


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyState:
    """How the rows of a copy were made, by the name of the copy: its source may change in the code.

    Args:
        target: the copy.
        definition: how its rows are made.
        log_versions: the versions of the columns in the log whose changes fit the definition.
        rebuild: number of the checkpoint generation of the snapshot flow that begins with an empty copy; 0 if rows of
            another definition never had to be removed.
    """

    target: QualifiedName
    definition: CopyDefinition
    log_versions: tuple[int, ...]
    rebuild: int = 0

    def followed_by(self, now: CopyDefinition) -> CopyState | None:
        """Return the state that adds rows of a later definition to the present rows; None if they can't be mixed."""
        if drift_error(self.definition, now) is not None:
            return None
        # Rows that have the first of several new columns without the later ones.
        between = [version for number, version in now.earlier_versions if number > self.definition.most_columns]
        versions = tuple(dict.fromkeys((*self.log_versions, *between, now.log_version)))
        # Changes of a column that was dropped since may be unapplied until all rows are read again.
        definition = replace(now, gone=self.definition.gone)
        return CopyState(target=self.target, definition=definition, log_versions=versions, rebuild=self.rebuild)

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return {
            "target": name_json(self.target),
            "definition": {
                name: value for name, value in asdict(self.definition).items() if name != "earlier_versions"
            },
            "log_versions": list(self.log_versions),
            "rebuild": self.rebuild,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """The rows of a snapshot that was read to its end on one server.

    Args:
        checkpoint: number of the checkpoint generation of the snapshot flow.
        log: the server.
        position: a position after every transaction that the rows show.
        is_passed: whether the changes were read up to it on that server, so that any successor has these rows.
    """

    checkpoint: int
    log: str
    position: int
    is_passed: bool = False


def new_copy(target: QualifiedName, definition: CopyDefinition, *, rebuild: int = 0) -> CopyState:
    """Return the state of a copy in which every row has this definition."""
    return CopyState(target=target, definition=definition, log_versions=(definition.log_version,), rebuild=rebuild)


def copy_of_json(value: Mapping[str, Any]) -> CopyState:
    """Return the state from its JSON."""
    given = value["definition"]
    columns = tuple(
        CopiedColumn(**{**each, "labels": tuple(each["labels"]), "fields": tuple(each["fields"])})
        for each in given["columns"]
    )
    return CopyState(
        target=name_of_json(value["target"]),
        definition=CopyDefinition(
            **{
                **given,
                "keys": tuple(given["keys"]),
                "key_ids": tuple(given["key_ids"]),
                "columns": columns,
                "gone": tuple(given["gone"]),
            }
        ),
        log_versions=tuple(value["log_versions"]),
        rebuild=int(value["rebuild"]),
    )


def staged_of_json(value: Mapping[str, Any] | None) -> StagedForm | None:
    """Return how changes are staged, from its JSON."""
    if value is None:
        return None
    return StagedForm(
        keys=tuple(value["keys"]), text_columns=tuple(value["text_columns"]), is_history=bool(value["is_history"])
    )
