"""The guard: which hosts and origins reach the server, who asks, and the headers of every answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from framework.server.access.roles import Caller
from framework.server.access.tokens import TOKEN_PREFIX
from framework.server.server import Server
from framework.server.web.faults import WebFault, fault_response
from framework.server.web.proxy import TrustedProxy

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::(?P<port>\d{1,5}))?")
_UNKNOWN = WebFault(
    401, "UNAUTHENTICATED", "Sign in: open the address that `sluice serve` prints, or send a token.",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the guard allows.

    Args:
        port: the port of the server, which is part of the cookie's name: browsers share cookies between ports.
        hosts: names by which the server may be called.
        content_security: the policy of the page's content.
        is_tls: whether browsers reach the server over HTTPS.
        proxy: the proxy that signs users in; None for no proxy.
    """

    port: int
    hosts: tuple[str, ...] = LOOPBACK
    content_security: str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    is_tls: bool = False
    proxy: TrustedProxy | None = None

    @property
    def cookie(self) -> str:
        """The name of the session's cookie."""
        return f"sluice_{self.port}"

    def knows_host(self, text: str) -> bool:
        """Whether a Host header is one of ours: a page of another name that resolves to this machine has its own."""
        found = _HOST.fullmatch(text)
        return found is not None and found["name"].lower() in self.hosts

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Whether an Origin header is that of the server's own page."""
        scheme, _, rest = origin.partition("://")
        return scheme in {"http", "https"} and rest.lower() == host.lower() and self.knows_host(rest)


class HostGuard:
    """Refuses requests for other hosts, and sets the headers of every answer.

    Args:
        app: the application.
        policy: what is allowed.
    """

    def __init__(self, app: ASGIApp, policy: Policy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers():
                    headers[name] = value
                # Files of the page are asked for again by their ETag; answers are nobody's but the caller's.
                headers.setdefault("Cache-Control", "no-cache" if scope["path"].startswith("/static/") else "no-store")
            await send(message)

        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) != 1 or not self._policy.knows_host(hosts[0]):
            fault = WebFault(
                421, "INVALID_PARAMETER_VALUE", "This server has no such host. Start it with --allowed-host."
            )
            await fault_response(fault)(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)

    def _headers(self) -> Iterable[tuple[str, str]]:
        return (
            ("Content-Security-Policy", self._policy.content_security),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
        )


def caller_of(request: Request, server: Server, policy: Policy) -> Caller:
    """Return who sends a request, by its token, its proxy or its session.

    A token of ours is what a program means, also behind a proxy. Another `Authorization` beside a user of the proxy is
    the proxy's own.

    Raises:
        WebFault: 401 without any of them; 403 if a page of another origin may have sent it, or a proxy is imitated.
    """
    header = request.headers.get("authorization")
    user = None if policy.proxy is None else policy.proxy.caller(request)
    if user is not None and not _has_own_token(header):
        check_origin(request, policy)  # the proxy has its own cookie, which a browser adds for any page
        return user
    if header is not None:
        scheme, _, token = header.partition(" ")
        found = server.tokens.caller(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise _UNKNOWN
        return found
    cookie = request.cookies.get(policy.cookie)
    session = None if cookie is None else server.sessions.caller(cookie)
    if session is None:
        raise _UNKNOWN
    check_origin(request, policy)
    return session


def _has_own_token(header: str | None) -> bool:
    return header is not None and header.partition(" ")[2].strip().startswith(TOKEN_PREFIX)


def check_origin(request: Request, policy: Policy) -> None:
    """Check that our own page sends a request, because a browser adds the cookie to requests of any page.

    Raises:
        WebFault: 403.
    """
    headers = request.headers
    origin, host = headers.get("origin"), headers.get("host", "")
    is_foreign = origin is not None and not policy.is_own_origin(origin, host)
    if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"} or is_foreign:
        raise WebFault(403, "PERMISSION_DENIED", "Only pages of this server may send requests with its session.")
    if request.method in _CHANGING and (origin is None or headers.get("x-sluice-request") != "1"):
        raise WebFault(
            403, "PERMISSION_DENIED", "A request that changes something needs Origin and X-Sluice-Request: 1."
        )


def check_content(request: Request) -> None:
    """Check that a request that changes something has JSON: forms of other pages can't send it unasked.

    Raises:
        WebFault: 415.
    """
    if request.method not in _CHANGING:
        return
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    if kind != "application/json" and (has_body or kind):
        raise WebFault(415, "INVALID_PARAMETER_VALUE", "Send application/json.")
