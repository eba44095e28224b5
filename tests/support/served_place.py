"""`sluice serve` as a process of its own, over a recorded pipeline."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.support.command_line import SLUICE, environment
from tests.support.server_world import record_shop


class Place:
    """A folder with a recorded pipeline, and the private folders of its user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {**environment(), "XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "c")}
        record_shop(folder / "work" / "shop")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        command = [*SLUICE, *arguments]
        return subprocess.run(
            command, cwd=self.folder / "work", env=self.variables, check=False, capture_output=True, text=True
        )

    @contextmanager
    def serving(self, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
        """A server that runs, and the address that it printed."""
        process = subprocess.Popen(
            [*SLUICE, "serve", "--port", "0", *arguments], cwd=self.folder / "work", env=self.variables, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()
            process.communicate()


def ask(url: str, headers: Mapping[str, str], body: Any = None, context: ssl.SSLContext | None = None) -> Any:
    """The answer of a server, with its headers."""
    data = None if body is None else json.dumps(body).encode()
    answer = urlopen(Request(url, data=data, headers=dict(headers)), context=context)  # noqa: S310 - our own server
    return json.load(answer), answer.headers
