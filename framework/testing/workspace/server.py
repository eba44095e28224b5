"""HTTP server of the stand-in on the loopback interface, for the real SDK as client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from databricks.sdk import WorkspaceClient
from databricks.sdk.clock import Clock as SdkClock
from databricks.sdk.core import Config

from framework.testing.manual_clock import ManualClock
from framework.testing.workspace.exchange import Request, ServiceFault
from framework.testing.workspace.stand_in import TOKEN, WAREHOUSE, LineCut, StandIn


class StandInWorkspace(StandIn):
    """An in-memory workspace for real clients, on a virtual clock.

    Examples:
        >>> with serve_workspace() as workspace:
        ...     workspace.client().current_user.me().user_name
        'ada@example.com'
    """

    def __init__(self, clock: ManualClock | None = None) -> None:
        super().__init__(clock)
        self.host = ""

    def client(self, token: str = TOKEN) -> WorkspaceClient:
        """Return the real SDK's client for this workspace; its waits advance the virtual clock."""
        return WorkspaceClient(config=self.config(token))

    def config(self, token: str = TOKEN) -> Config:
        """Return the SDK's configuration for this workspace."""
        return Config(
            host=self.host, token=token, auth_type="pat", warehouse_id=WAREHOUSE, clock=_VirtualSdkClock(self.clock)
        )


@contextmanager
def serve_workspace(clock: ManualClock | None = None) -> Iterator[StandInWorkspace]:
    """Serve a workspace at a free port of the loopback interface while the block runs."""
    workspace = StandInWorkspace(clock)
    server = _Server(("127.0.0.1", 0), _handler_for(workspace))
    workspace.host = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield workspace
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


class _VirtualSdkClock(SdkClock):
    """The SDK's clock, implemented by the virtual clock."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def time(self) -> float:
        """Return the seconds since the epoch."""
        return self._clock.now().timestamp()

    def sleep(self, seconds: float) -> None:
        """Advance the virtual clock."""
        self._clock.sleep(seconds)


def _handler_for(workspace: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A response is two small packets; without this the second waits 40 ms for the client's acknowledgement.
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: requests are recorded in `requests`."""

        def _serve(self) -> None:
            try:
                self._send(200, workspace.answer(self._request(), self._token()))
            except ServiceFault as fault:
                body = {"error_code": fault.error_code, "message": fault.message}
                self._send(fault.status, body, retry_after_seconds=fault.retry_after_seconds)
            except LineCut:
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the standard library's names

        def _request(self) -> Request:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(length)
            return Request(
                method=self.command,
                path=unquote(parts.path),
                query=dict(parse_qsl(parts.query)),
                body=json.loads(text) if text else {},
            )

        def _token(self) -> str:
            return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

        def _send(self, status: int, body: dict[str, Any], *, retry_after_seconds: int | None = None) -> None:
            text = json.dumps(body).encode("utf-8")
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            if retry_after_seconds is not None:
                self.send_header("Retry-After", str(retry_after_seconds))
            self.end_headers()
            self.wfile.write(text)

    return Handler
