"""Roles, and who asks: a browser's session or a token."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a caller may do; each role includes those before it.

    `view` has states, names and events, `read` also rows, `operate` runs and repairs, `manage` registers and grants.
    """

    VIEW = "view"
    READ = "read"
    OPERATE = "operate"
    MANAGE = "manage"

    def includes(self, other: Role) -> bool:
        """Whether this role includes another one."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends a request.

    Args:
        user: the user; of a token, its name.
        role: what the caller may do.
        via: `session` or `token`.
        token: the id of the token; None for a session.
        pipelines: the names of the pipelines that the caller sees; empty for all.
    """

    user: str
    role: Role
    via: str
    token: str | None = None
    pipelines: frozenset[str] = frozenset()

    def may_see(self, pipeline: str) -> bool:
        """Whether the caller sees a pipeline."""
        return not self.pipelines or pipeline in self.pipelines
