"""Routes: each has its method, its path, the role that it needs, and what answers it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request

from framework.server.access.roles import Caller, Role
from framework.server.engines.start_request import LONGEST_REASON
from framework.server.pipelines import PipelineEntry
from framework.server.server import Server
from framework.server.web.faults import invalid, not_found, shortened

OWN_FACE = "/api/sluice/v1"
_NUMBER = re.compile(r"[0-9]{1,18}")
_REPEATED = frozenset({"order_by"})
"""Parameters that clients send several times."""


class Access(StrEnum):
    """Access without a role: `open` for everybody who reaches the server, such as a page's sign-in."""

    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request with what its handler needs.

    Args:
        caller: who asks; of an open route, nobody.
        route: the path of the route, with the names of its parameters.
        body: the JSON object of the request; empty without a body.
    """

    request: Request
    server: Server
    caller: Caller
    route: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Mapping[str, str]:
        """The parameters in the path."""
        return self.request.path_params

    @property
    def query(self) -> QueryParams:
        """The parameters of the query."""
        return self.request.query_params

    def pipeline(self) -> PipelineEntry:
        """Return the pipeline that the path names by its id, or by its name if only one has it.

        Raises:
            WebFault: 404, also for a pipeline that the caller may not see.
        """
        wanted = self.path["pipeline"]
        seen = self.pipelines()
        found = [each for each in seen if each.pipeline_id == wanted] or [each for each in seen if each.name == wanted]
        if len(found) != 1:
            raise not_found(f"The pipeline {shortened(wanted)!r} does not exist.")
        return found[0]

    def pipelines(self) -> tuple[PipelineEntry, ...]:
        """Return the pipelines that the caller sees."""
        return tuple(each for each in self.server.pipelines() if self.caller.may_see(each.name))

    def number(self, name: str, *, default: int, most: int) -> int:
        """Return a number of the query, from 1.

        Raises:
            WebFault: 400.
        """
        text = self.query.get(name)
        if text is None:
            return default
        if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= most:
            raise invalid(f"{name} must be a number from 1 to {most:,}.")
        return int(text)

    def only(self, *known: str) -> None:
        """Check that the query has no other parameters, and none twice: what is ignored would be answered wrong.

        Raises:
            WebFault: 400.
        """
        for name in self.query:
            if name not in known:
                raise invalid(f"The parameter {shortened(name)!r} is not supported.")
            if name not in _REPEATED and len(self.query.getlist(name)) > 1:
                raise invalid(f"The parameter {name!r} is given more than once.")

    def only_fields(self, *known: str) -> None:
        """Check that the body has no other fields.

        Raises:
            WebFault: 400.
        """
        for name in self.body:
            if name not in known:
                raise invalid(f"The field {shortened(name)!r} is not supported.")

    def reason(self) -> str:
        """Return why the caller asks, in their words; empty without a reason.

        Raises:
            WebFault: 400.
        """
        reason = self.body.get("reason")
        if reason is None:
            return ""
        if not isinstance(reason, str) or len(reason) > LONGEST_REASON:
            raise invalid(f"reason must be a text of at most {LONGEST_REASON:,} characters.")
        return reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route.

    Args:
        path: the path; below `/api/sluice/v1` if it does not begin with `/api`, `/metrics` or `/.well-known`.
        role: the role that a caller needs.
        handler: returns the JSON value of the answer, or a response. It runs in a thread, unless it is a coroutine.
        summary: one sentence for the API's description.
        query: names of the parameters of its query; others are refused.
        fields: names of the fields of its body; others are refused. None if the handler checks them.
        status: the status of a good answer.
        checks_role_itself: whether the handler checks for a higher role, which depends on the request.
    """

    method: str
    path: str
    role: Role | Access
    handler: Callable[[Call], Any]
    summary: str
    query: tuple[str, ...] = ()
    fields: tuple[str, ...] | None = ()
    status: int = 200
    checks_role_itself: bool = False

    @property
    def full_path(self) -> str:
        """The whole path."""
        is_whole = self.path.startswith(("/api/", "/metrics", "/.well-known/"))
        return self.path if is_whole else OWN_FACE + self.path
