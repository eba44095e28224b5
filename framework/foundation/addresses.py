"""Where a Delta table is: at a path, or under a name of a configured catalog."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAddress:
    """Exactly one of `path` (a local path or a URI) and `name` (quoted, for SQL)."""

    path: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Hold the promise that there is one address, not none or two."""
        if (self.path is None) == (self.name is None):
            msg = "a table address has either a path or a name"
            raise ValueError(msg)

    @property
    def sql(self) -> str:
        """The address as SQL's FROM clause takes it."""
        if self.name is not None:
            return self.name
        return f"delta.`{self.path}`"
