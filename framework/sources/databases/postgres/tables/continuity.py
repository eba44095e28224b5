"""The recorded identity of a table between two updates: its oid, its membership of the publication, its partitions.

All code above this folder treats it as one text, compares it for equality, and passes it back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

from framework.foundation.errors import SourceError

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuity:
    """Distinguishes a table and its part of the log from replacements of the same name.

    Args:
        table: the oid of the table; 0 if it is unknown.
        member: the oid of its membership of the publication; 0 if it was not a member.
        partitions: its partitions, as `Partitions.to_json` returns them; empty if it has none, and in a plan.
        links: its partitions when the last chunks were planned, each with the transaction that attached it.
    """

    table: int = 0
    member: int = 0
    partitions: str = ""
    links: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Return it as text, for `of`."""
        found: dict[str, Any] = {"version": _VERSION, "table": self.table, "member": self.member}
        if self.partitions:
            found["partitions"] = json.loads(self.partitions)
        if self.links:
            found["links"] = list(self.links)
        return json.dumps(found, ensure_ascii=False)

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a text of `to_text`; an empty text gives unknown fields.

        Raises:
            SourceError: DATABASE_CONTINUITY_INVALID.
        """
        if not text:
            return cls()
        try:
            value = json.loads(text)
            if value["version"] != _VERSION:
                raise _invalid(problem=f"its version is {value['version']}, but this release reads version {_VERSION}")
            partitions = value.get("partitions")
            return cls(
                table=int(value["table"]),
                member=int(value["member"]),
                partitions="" if partitions is None else json.dumps(partitions, ensure_ascii=False),
                links=tuple(map(str, value.get("links", ()))),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _invalid(problem=f"it has a missing or malformed field: {error}") from error


def _invalid(*, problem: str) -> SourceError:
    return SourceError("DATABASE_CONTINUITY_INVALID", problem=problem)
