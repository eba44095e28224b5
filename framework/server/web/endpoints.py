"""Endpoints: a route's handler behind the checks that every request passes."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from framework.foundation.errors import SluiceError
from framework.foundation.secrets.known_secrets import hide_known_values
from framework.server.access.roles import Caller, Role
from framework.server.server import Server
from framework.server.web.faults import WebFault, fault_of, fault_response, invalid, shortened
from framework.server.web.guard import Policy, caller_of, check_content, check_origin
from framework.server.web.routes import Access, Call, Route

_MOST_LEVELS = 20
NOBODY = Caller(user="", role=Role.VIEW, via="nobody")


def endpoint(route: Route, server: Server, policy: Policy) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers a route: role, content, handler; errors of the house become answers."""

    async def answer(request: Request) -> Response:
        try:
            caller = await run_in_threadpool(_allowed, route, request, server, policy)
            check_content(request)
            call = Call(request=request, server=server, caller=caller, route=route.full_path, body=await _body(request))
            _check_honoured(route, call)
            if inspect.iscoroutinefunction(route.handler):
                value = await route.handler(call)
            else:
                value = await run_in_threadpool(route.handler, call)
        except WebFault as fault:
            return fault_response(fault)
        except SluiceError as error:
            return fault_response(fault_of(error))
        return value if isinstance(value, Response) else json_response(value, route.status)

    return answer


def json_response(value: Any, status: int = 200) -> JSONResponse:
    """Return a value as JSON without secrets."""
    return JSONResponse(hide_known_values(value), status_code=status)


def _allowed(route: Route, request: Request, server: Server, policy: Policy) -> Caller:
    """Return the caller of a route, who has its role.

    Raises:
        WebFault: 401, 403.
    """
    if isinstance(route.role, Access):
        if route.method != "GET":
            check_origin(request, policy)
        return NOBODY
    caller = caller_of(request, server, policy)
    if not caller.role.includes(route.role):
        raise denied(caller, route.role)
    return caller


def denied(caller: Caller, role: Role) -> WebFault:
    """Return the answer for a caller without a role."""
    return WebFault(403, "PERMISSION_DENIED", f"{caller.user} has the role {caller.role}; this needs {role}.")


def _check_honoured(route: Route, call: Call) -> None:
    """Check that the route honours all that the request has: what is ignored would be answered wrong.

    Raises:
        WebFault: 400.
    """
    call.only(*route.query)
    if route.fields is not None:
        call.only_fields(*route.fields)


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request.

    Raises:
        WebFault: 400.
    """
    if request.method == "GET":
        return {}
    content = await request.body()
    if not content:
        return {}
    try:
        found = json.loads(content, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise invalid("The body must be a JSON object.")
    _check_values(found)
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object whose fields are there once; one of two would be ignored.

    Raises:
        WebFault: 400.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid(f"The field {shortened(twice)!r} is given more than once.")
    return found


def _no_number(text: str) -> float:
    raise invalid(f"{text} is no number of JSON.")


def _finite(text: str) -> float:
    found = float(text)
    return found if math.isfinite(found) else _no_number(shortened(text))


def _check_values(body: dict[str, Any]) -> None:
    """Check that the values of a body are not nested for ever, and that its texts may be in a file and a command line.

    Raises:
        WebFault: 400.
    """
    level: list[Any] = [body]
    for _ in range(_MOST_LEVELS):
        texts = [each for each in level if isinstance(each, str)]
        if not all(map(_is_text, texts)):
            raise invalid("The texts of the body must be Unicode without control characters of value 0.")
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each if isinstance(each, list) else [*each, *each.values()])
        ]
        if not level:
            return
    raise invalid(f"The body has more than {_MOST_LEVELS} levels.")


def _is_text(text: str) -> bool:
    """Whether a text is neither half of a surrogate pair nor has a zero."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
