"""Texts of data are only ever texts: hostile and strange ones in every field."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

from tests.page import recorded
from tests.page.conftest import Visit
from tests.page.fake_server import serving
from tests.page.fake_server import FakeServer
from tests.page.worlds import uid

_STRANGE = {
    "markup": recorded.HOSTILE,
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
    pipeline = "/p/evil"
    return [
        pipeline, f"{pipeline}?d={dataset}", f"{pipeline}?view=list", f"{pipeline}?select={quote(text)}",
        f"{pipeline}/updates?view=list", f"{pipeline}/updates?q={quote(text)}", f"{pipeline}/events?e={uid('evil', 'event', 1)}",
        f"{pipeline}/u/{uid('evil', 1)}", f"{pipeline}/u/{uid('evil', 1)}?tab=flows", f"{pipeline}/u/{uid('evil', 1)}?tab=plan",
        *(f"{pipeline}/d/{dataset}?tab={tab}" for tab in ("columns", "rows", "quality", "flows", "history", "lineage")),
        f"{pipeline}/doctor", f"{pipeline}/quarantine?flow={quote(text)}", f"{pipeline}/ingest?table={quote(text)}",
        f"{pipeline}?run=all", "/schedules", "/settings", f"/{quote(text, safe='')}", f"/p/{quote(text, safe='')}", "/",
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
    with serving(FakeServer(recorded.hostile(text))) as server:
        page = visit(server, "/")
        expect(page.locator(".pipeline-row")).to_have_count(1)
        assert _walk(page, _paths(text)) == []


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(min_size=1, max_size=40))
def test_any_text_in_every_field_is_only_a_text(visit: Visit, text: str) -> None:
    """Texts that Hypothesis draws behave as the chosen ones."""
    with serving(FakeServer(recorded.hostile(text))) as server:
        page = visit(server, "/")
        assert _walk(page, _paths(text)[::3]) == []
