"""Routes: each has its method, its path, the role that it needs, and what answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request

from framework.server.access.roles import Caller, Role
from framework.server.pipelines import PipelineEntry
from framework.server.server import Server
from framework.server.web.faults import WebFault, not_found

OWN_FACE = "/api/sluice/v1"
_TEXTS = {"true": True, "false": False}


class Access(StrEnum):
    """Access without a role: `open` for everybody who reaches the server, such as a page's sign-in."""

    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request with what its handler needs.

    Args:
        caller: who asks; of an open route, nobody.
        body: the JSON object of the request; empty without a body.
    """

    request: Request
    server: Server
    caller: Caller
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
            raise not_found(f"The pipeline {wanted!r} does not exist.")
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
        if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= most:
            raise WebFault(400, "INVALID_PARAMETER_VALUE", f"{name} must be a number from 1 to {most:,}.")
        return int(text)

    def only(self, *known: str) -> None:
        """Check that the query has no other parameters: what is ignored would be answered wrong.

        Raises:
            WebFault: 400.
        """
        for name in self.query:
            if name not in known:
                raise WebFault(400, "INVALID_PARAMETER_VALUE", f"The parameter {name!r} is not supported.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route.

    Args:
        path: the path; below `/api/sluice/v1` if it does not begin with `/api`, `/metrics` or `/.well-known`.
        role: the role that a caller needs.
        handler: returns the JSON value of the answer, or a response. It runs in a thread, unless it is a coroutine.
        summary: one sentence for the API's description.
        query: names of the parameters of its query, for the description.
        status: the status of a good answer.
        checks_role_itself: whether the handler checks for a higher role, which depends on the request.
    """

    method: str
    path: str
    role: Role | Access
    handler: Callable[[Call], Any]
    summary: str
    query: tuple[str, ...] = ()
    status: int = 200
    checks_role_itself: bool = False

    @property
    def full_path(self) -> str:
        """The whole path."""
        is_whole = self.path.startswith(("/api/", "/metrics", "/.well-known/"))
        return self.path if is_whole else OWN_FACE + self.path
