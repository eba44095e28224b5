"""A webhook and a mail server on loopback that keep what they receive."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


@dataclass
class Received:
    """What a receiver got; `statuses` are the answers to come, 200 when there is none left."""

    port: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    mails: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)


@contextmanager
def webhook() -> Iterator[Received]:
    """A webhook that keeps the JSON of each request."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name is the one of http.server
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.bodies.append(json.loads(body))
            received.headers.append(dict(self.headers))
            self.send_response(received.statuses.pop(0) if received.statuses else 200)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with _serving(HTTPServer(("127.0.0.1", 0), Handler)) as port:
        received.port = port
        yield received


@contextmanager
def mail_server() -> Iterator[Received]:
    """A mail server without encryption that keeps each mail."""
    received = Received()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            for line in iter(self.rfile.readline, b""):
                word = line.split()[0].upper()
                if word == b"EHLO":
                    self._say("250 here")
                elif word == b"DATA":
                    self._say("354 go on")
                    received.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
                    self._say("250 kept")
                elif word == b"QUIT":
                    self._say("221 bye")
                    return
                else:
                    self._say("250 yes")

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with _serving(socketserver.TCPServer(("127.0.0.1", 0), Handler)) as port:
        received.port = port
        yield received


@contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
