"""A browser for the tests of the page: Debian's Chromium, and a watch over what a page must never do."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.page import recorded
from tests.page.fake_server import FakeServer, serving
from tests.page.healthy import seven_pipelines
from tests.page.worlds import World

_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
)
_VIOLATIONS = (
    "addEventListener('securitypolicyviolation', (e) => console.error('CSP', e.violatedDirective, e.blockedURI))"
)
# The browser itself reports each answer that is no success; screens show what they make of it.
_ANSWERS = "Failed to load resource"
expect.set_options(timeout=15_000)

Visit = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, once per worker; without it the tests are skipped."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed: `apt-get install chromium`")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        yield chromium
        chromium.close()


class Visits:
    """Pages that are opened, and what was wrong with them."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[Any] = []
        self.faults: list[str] = []

    def __call__(self, server: FakeServer, path: str, **options: Any) -> Page:
        """Open a path of the page; each call is a browser of its own."""
        context = self._browser.new_context(**({"viewport": {"width": 1360, "height": 860}} | options))
        self._contexts.append(context)
        context.add_init_script(_VIOLATIONS)
        page = context.new_page()
        self.watch(page, server)
        page.goto(server.url + path)
        return page

    def watch(self, page: Page, server: FakeServer) -> None:
        """Record errors of scripts, violations of the policy, dialogs, and requests to other hosts."""
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", lambda message: self._listen(message.type, message.text))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self._asked(request.url, server.url))

    def _listen(self, kind: str, text: str) -> None:
        if kind == "error" and not text.startswith(_ANSWERS):
            self.faults.append(f"console: {text}")

    def _asked(self, url: str, home: str) -> None:
        if not url.startswith((home, "data:", "blob:")):
            self.faults.append(f"request: {url}")

    def close(self) -> None:
        """Close all."""
        for each in self._contexts:
            each.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Opens pages; no script fails in them, nothing violates the policy, and no other host is asked."""
    visits = Visits(browser)
    yield visits
    visits.close()
    assert visits.faults == []


@contextmanager
def _served(world: World) -> Iterator[FakeServer]:
    with serving(FakeServer(world)) as server:
        yield server


@pytest.fixture(scope="session")
def _healthy() -> Iterator[FakeServer]:
    with _served(seven_pipelines()) as server:
        yield server


@pytest.fixture
def healthy(_healthy: FakeServer) -> FakeServer:
    """A server with seven pipelines, which has been asked nothing yet."""
    _healthy.posts.clear()
    _healthy.gets.clear()
    return _healthy


@pytest.fixture(scope="session")
def broken() -> Iterator[FakeServer]:
    """A server whose pipelines have faults."""
    with _served(recorded.broken()) as server:
        yield server


@pytest.fixture(scope="session")
def thousand() -> Iterator[FakeServer]:
    """A server with one pipeline of 1,000 datasets."""
    with _served(recorded.thousand_nodes()) as server:
        yield server
