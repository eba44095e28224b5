"""Texts of data are only ever texts: hostile and strange ones in every field."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

from tests.page.conftest import Visit
from tests.page.fake_server import FakeServer, serving
from tests.page.strange import HOSTILE, hostile
from tests.page.worlds import uid

_STRANGE = {
    "markup": HOSTILE,
    "template": "${alert(1)}{{7*7}}<!--<svg onload=alert(1)>-->&lt;b&gt;&#x27;%3Cscript%3E",
    "address": "javascript:alert(1)//../../..%2f%2e%2e?x=#c=good",
    "prototype": "__proto__",
    "long": "x" * 700,
    "unicode": "\u202eevil\u2066 \u0000\ud7ff\U0001f469\u200d\U0001f4bb עברית z\u0351\u0352\u0353 \n\r\t\x1b[31m",
}
_GO = "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"
_WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def _paths(text: str) -> list[str]:
    dataset = quote(f"main.{text.replace('.', '')}.t", safe="")
    update = f"/p/evil/u/{uid('evil', 1)}"
    tabs = ("columns", "rows", "quality", "flows", "history", "lineage")
    return [
        "/p/evil", f"/p/evil?d={dataset}", "/p/evil?view=list", f"/p/evil?select={quote(text)}", "/p/evil?run=all",
        "/p/evil/updates?view=list", f"/p/evil/updates?q={quote(text)}", f"/p/evil/events?e={uid('evil', 'event', 1)}",
        update, f"{update}?tab=flows", f"{update}?tab=plan", *(f"/p/evil/d/{dataset}?tab={tab}" for tab in tabs),
        "/p/evil/doctor", f"/p/evil/quarantine?flow={quote(text)}", f"/p/evil/ingest?table={quote(text)}",
        "/schedules", "/settings", f"/{quote(text, safe='')}", f"/p/{quote(text, safe='')}", "/",
    ]  # fmt: skip


def _walk(page: Page, paths: list[str]) -> list[str]:
    """Go to the screens; what was wider than the window."""
    wide = []
    for path in paths:
        page.evaluate(_GO, path)
        expect(page.locator(".placeholder")).to_have_count(0)
        if page.evaluate(_WIDER) > 0:
            wide.append(path)
    assert page.evaluate("window.hacked") is None
    return wide


@pytest.mark.parametrize("text", _STRANGE.values(), ids=_STRANGE)
def test_a_hostile_text_in_every_field_is_only_a_text(visit: Visit, text: str) -> None:
    """No script runs, no request leaves, nothing breaks, and the layout holds."""
    with serving(FakeServer(hostile(text))) as server:
        page = visit(server, "/")
        expect(page.locator(".pipeline-row")).to_have_count(1)
        assert _walk(page, _paths(text)) == []


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(min_size=1, max_size=40))
def test_any_text_in_every_field_is_only_a_text(visit: Visit, text: str) -> None:
    """Texts that Hypothesis draws behave as the chosen ones."""
    with serving(FakeServer(hostile(text))) as server:
        page = visit(server, "/")
        assert _walk(page, _paths(text)[::3]) == []
