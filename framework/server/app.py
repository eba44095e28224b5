"""The application: the routes of both faces, the page's files, and the guard around them."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.routing import Route as WebRoute
from starlette.staticfiles import StaticFiles

from framework.server.api.access import ACCESS_ROUTES
from framework.server.api.datasets import dataset_routes
from framework.server.api.description import description_route
from framework.server.api.jobs import JOB_ROUTES
from framework.server.api.live import LIVE_ROUTES
from framework.server.api.overview import overview_routes
from framework.server.api.updates import UPDATE_ROUTES
from framework.server.databricks.routes import DATABRICKS_ROUTES
from framework.server.server import Server
from framework.server.web.endpoints import endpoint
from framework.server.web.faults import WebFault, code_of, fault_response
from framework.server.web.guard import HostGuard, Policy
from framework.server.web.routes import OWN_FACE, Route
from framework.server.workbench.kinds import KINDS, WAY

_PAGE = Path(__file__).parent / "page" / "static"
PAGE_PATHS = ("/", "/p/{rest:path}", "/mirrors", "/schedules", "/deploys", "/usage", "/settings")
"""Paths that the page routes itself; its files have no data, so that they need no session."""
_GROUPS = {
    "schedules": "/schedules",
    "alerts": "/alerts",
    "tokens": "/tokens",
    "lag": "/pipelines/{pipeline}/lag",
    "chunks": "/pipelines/{pipeline}/chunks",
    "doctor.ways": "/pipelines/{pipeline}/doctor/ways",
}
_MOST_BYTES = 1_000_000
_SMALLEST_GZIP = 1_000
_IMPORT_MAP = re.compile(r'<script type="importmap">(.*?)</script>', re.DOTALL)


def routes_of(policy: Policy, more: Sequence[Route] = ()) -> tuple[Route, ...]:
    """Return all routes of the API: ours, Databricks', and those of other parts of the server."""
    ours = (
        *overview_routes(policy), *dataset_routes(), *UPDATE_ROUTES, *JOB_ROUTES, *ACCESS_ROUTES, *LIVE_ROUTES, *more,
    )  # fmt: skip
    return (*ours, description_route(ours), *DATABRICKS_ROUTES)


def application(server: Server, policy: Policy, more: Sequence[Route] = (), page: Path = _PAGE) -> Starlette:
    """Return the application of a server.

    Args:
        server: the pipelines; it is started and closed with the application.
        policy: what the guard allows.
        more: routes of other parts.
        page: the folder with the files of the page.
    """
    policy = replace(policy, content_security=content_security(page))
    served = routes_of(policy, more)
    server.features = features_of(served)
    routes: list[BaseRoute] = [
        WebRoute(route.full_path, endpoint(route, server, policy), methods=[route.method]) for route in served
    ]
    if (page / "index.html").is_file():
        routes += [WebRoute(path, _index(page)) for path in PAGE_PATHS]
        routes.append(Mount("/static", StaticFiles(directory=page)))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        server.start()
        try:
            yield
        finally:
            server.close()

    return Starlette(
        routes=routes,
        middleware=[Middleware(HostGuard, policy=policy), Middleware(GZipMiddleware, minimum_size=_SMALLEST_GZIP)],
        exception_handlers={HTTPException: _on_http_fault, Exception: _on_error},
        lifespan=lifespan,
        max_body_size=_MOST_BYTES,
    )


def features_of(routes: Sequence[Route]) -> tuple[str, ...]:
    """Return the names of what another server may lack: kinds of jobs, their fields, groups of routes."""
    groups = {name for name, ending in _GROUPS.items() if any(route.full_path == OWN_FACE + ending for route in routes)}
    kinds = {name: kind for name, kind in KINDS.items() if name != WAY}
    fields = {f"jobs.{name}.{field}" for name, kind in kinds.items() for field in kind.fields}
    return tuple(sorted({*groups, *(f"jobs.{name}" for name in kinds), *fields}))


def content_security(page: Path) -> str:
    """Return the policy of the page's content: its own files, and its import map by its hash."""
    index = page / "index.html"
    text = index.read_text("utf-8") if index.is_file() else ""
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in _IMPORT_MAP.findall(text)]
    scripts = " ".join(["'self'", *(f"'sha256-{each}'" for each in hashes)])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


def _index(page: Path) -> Callable[[Request], Awaitable[Response]]:
    async def index(request: Request) -> Response:
        del request
        return FileResponse(page / "index.html", media_type="text/html", headers={"Cache-Control": "no-cache"})

    return index


async def _on_http_fault(request: Request, error: Exception) -> Response:
    """Answer what the framework refuses: no such path or method, or a body that is too large."""
    del request
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {
        404: "This path does not exist.",
        405: "This path does not have that method.",
        413: "The body is too large.",
    }
    return fault_response(WebFault(status, code_of(status), words.get(status, "The request is refused.")))


async def _on_error(request: Request, error: Exception) -> Response:
    """Answer an unexpected error without its text, which may have anything in it."""
    del request, error
    return fault_response(WebFault(500, "INTERNAL_ERROR", "An unexpected error occurred; the server's log has it."))
