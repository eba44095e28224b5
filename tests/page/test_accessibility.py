"""axe-core finds nothing serious on any screen; narrow screens scroll in one direction only."""

from __future__ import annotations

from importlib.resources import files

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Visit
from tests.page.fake_server import FakeServer
from tests.page.worlds import uid

_AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
_RUN = "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})"
_ORDERS = "/p/shop/d/main.shop.orders"
_SCREENS = {
    "home": "/", "graph": "/p/shop?d=main.shop.orders", "list": "/p/shop?view=list", "plan": "/p/shop?run=all",
    "grid": "/p/shop/updates", "requests": "/p/shop/updates?view=list", "update": f"/p/shop/u/{uid('shop', 25)}",
    "compare": f"/p/shop/u/{uid('shop', 24)}?tab=compare", "log": f"/p/shop/u/{uid('shop', 24)}?tab=log",
    "events": "/p/shop/events", "columns": _ORDERS, "rows": f"{_ORDERS}?tab=rows", "quality": f"{_ORDERS}?tab=quality",
    "flows": f"{_ORDERS}?tab=flows", "history": f"{_ORDERS}?tab=history", "lineage": f"{_ORDERS}?tab=lineage",
    "doctor": "/p/shop/doctor", "quarantine": "/p/shop/quarantine?flow=main.shop.customers",
    "ingestion": "/p/bank/ingest?table=public.events", "schedules": "/schedules", "settings": "/settings",
}  # fmt: skip
_DARK = ("home", "graph", "plan", "update", "events", "quality", "doctor", "ingestion")
_GO = "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"


def _open(page: Page, path: str) -> None:
    page.evaluate(_GO, path)
    expect(page.locator(".placeholder")).to_have_count(0)
    expect(page.locator("main")).not_to_be_empty()
    page.wait_for_timeout(50)


def _serious(page: Page) -> list[str]:
    page.evaluate(_AXE)
    found = page.evaluate(_RUN)["violations"]
    return [
        f"{each['id']}: {node['html'][:160]}"
        for each in found
        if each["impact"] in {"serious", "critical"}
        for node in each["nodes"][:3]
    ]


@pytest.mark.parametrize(("scheme", "screens"), [("light", tuple(_SCREENS)), ("dark", _DARK)])
def test_no_screen_has_a_serious_finding(
    visit: Visit, healthy: FakeServer, scheme: str, screens: tuple[str, ...]
) -> None:
    """Contrast, names, roles and order hold on each screen; in the dark on those with colours of their own."""
    page = visit(healthy, "/", color_scheme=scheme, reduced_motion="reduce")
    expect(page.locator(".pipeline-row")).to_have_count(7)
    faults = {}
    for name in screens:
        _open(page, _SCREENS[name])
        faults[name] = _serious(page)
    assert {name: found for name, found in faults.items() if found} == {}


def test_broken_states_have_no_serious_finding(visit: Visit, broken: FakeServer) -> None:
    """Errors are read out, too."""
    page = visit(broken, "/", reduced_motion="reduce")
    expect(page.locator(".pipeline-row")).to_have_count(2)
    faults = {}
    for path in ("/", "/p/shop", "/p/fresh", f"/p/shop/u/{uid('shop', 2)}", "/nothing"):
        _open(page, path)
        faults[path] = _serious(page)
    assert {path: found for path, found in faults.items() if found} == {}


def test_no_screen_is_wider_than_a_phone(visit: Visit, healthy: FakeServer) -> None:
    """At 390 pixels nothing makes the page scroll sideways, and the list stands before the graph."""
    page = visit(healthy, "/", viewport={"width": 390, "height": 844})
    expect(page.locator(".pipeline-row")).to_have_count(7)
    wide = []
    for name, path in _SCREENS.items():
        _open(page, path)
        if page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0:
            wide.append(name)
    assert wide == []
    _open(page, "/p/shop")
    expect(page.get_by_role("region", name="Flows by attention")).to_be_visible()


def test_motion_stops_where_it_is_not_wanted(visit: Visit, healthy: FakeServer) -> None:
    """With reduced motion nothing is animated."""
    page = visit(healthy, "/p/shop", reduced_motion="reduce")
    page.locator(".node").first.wait_for()
    assert page.evaluate("document.getAnimations().length") == 0
