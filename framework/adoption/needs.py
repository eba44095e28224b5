"""Needs of a module: what it expects of its workspace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from framework.foundation.locations import SourceLocation


class NeedKind(StrEnum):
    """The kind of a need: the key of `sluice.local.yml` that it is an entry of, or `package`."""

    PATH = "paths"
    TABLE = "tables"
    FUNCTION = "functions"
    SECRET = "secrets"  # noqa: S105 - the name of a kind
    PARAMETER = "parameters"
    PACKAGE = "package"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing that code needs.

    Args:
        kind: what it is.
        name: the prefix of a path, the name of a table, function, parameter or package; `scope/key` of a secret.
        location: where the code names it.
        default: the value of a parameter that the code itself gives; None without one.
    """

    kind: NeedKind
    name: str
    location: SourceLocation
    default: str | None = None


def each_once(needs: Iterable[Need]) -> tuple[Need, ...]:
    """Return the first need of each kind and name, and the first default that one of them has."""
    found: dict[tuple[NeedKind, str], Need] = {}
    for need in needs:
        known = found.setdefault((need.kind, need.name), need)
        if known.default is None and need.default is not None:
            found[need.kind, need.name] = Need(
                kind=known.kind, name=known.name, location=known.location, default=need.default
            )
    return tuple(found.values())
