"""A small reverse proxy on loopback that signs users in, as docs/securing.md says that one has to."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import urlsplit

PROXY_ADDRESS = "127.0.0.2"
"""Where the proxy's connections come from; those of a client of its own come from 127.0.0.1."""
_OURS = {"x-forwarded-user", "x-forwarded-groups"}
_OF_CONNECTION = {"connection", "transfer-encoding", "keep-alive"}


class _Handler(BaseHTTPRequestHandler):
    server_port: ClassVar[int]
    groups: ClassVar[Mapping[str, str]]

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        kept = {
            name: value
            for name, value in self.headers.items()
            if name.lower().replace("_", "-") not in _OURS and name.lower() not in {"cookie", "connection"}
        }
        user = self.headers.get("Cookie", "").removeprefix("proxy=")
        if user:
            kept |= {"X-Forwarded-User": user, "X-Forwarded-Groups": self.groups[user]}
        behind = http.client.HTTPConnection(
            "127.0.0.1", self.server_port, timeout=20, source_address=(PROXY_ADDRESS, 0)
        )
        try:
            behind.request(self.command, self.path, body=body or None, headers=kept)
            self._answer(behind.getresponse())
        finally:
            behind.close()

    def _answer(self, answer: http.client.HTTPResponse) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_CONNECTION:
                self.send_header(name, value)
        self.end_headers()
        with suppress(OSError, http.client.HTTPException):  # one of both sides has ended a stream
            while part := answer.read1(65_536):
                self.wfile.write(part)
                self.wfile.flush()

    do_GET = do_POST = do_DELETE = _pass_on  # noqa: N815 - the names that the library looks for

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@contextmanager
def signing_in(url: str, groups: Mapping[str, str]) -> Iterator[str]:
    """A proxy before a server, which knows its users by a cookie `proxy=NAME`; yield its address.

    Args:
        url: the address of the server.
        groups: the groups of each user, with commas between them.
    """
    handler = type("Handler", (_Handler,), {"server_port": urlsplit(url).port, "groups": groups})
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join(timeout=10)
