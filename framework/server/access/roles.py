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
        via: `session`, `token` or `proxy`.
        token: the id of the token; None without one.
        session: the id of the session; None without one.
        pipelines: the names of the pipelines that the caller sees; empty for all.
    """

    user: str
    role: Role
    via: str
    token: str | None = None
    session: str | None = None
    pipelines: frozenset[str] = frozenset()

    @property
    def identity(self) -> str:
        """A text that is the same for all requests of one caller, and for no other one."""
        return f"{self.via}:{self.token or self.session or self.user}"

    def may_see(self, pipeline: str) -> bool:
        """Whether the caller sees a pipeline."""
        return not self.pipelines or pipeline in self.pipelines
