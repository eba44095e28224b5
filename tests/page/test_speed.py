"""Big pipelines stay quick: the time that the page's main thread works, from Chromium's performance trace.

The processor time of the thread is counted, not the clock, so that a busy machine changes little; bounds have slack.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.page import recorded
from tests.page.conftest import Visit
from tests.page.fake_server import FakeServer, serving

_GOAL_PAINT, _GOAL_CLICK, _GOAL_EVENTS, _FRAME = 1.0, 0.05, 0.3, 1 / 60
_SLACK = 4
_PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def _worked(browser: Browser, page: Page, act: Callable[[], object]) -> float:
    """Seconds of processor time that the page's main thread takes for an act."""
    browser.start_tracing(
        page=page, categories=["toplevel", "disabled-by-default-devtools.timeline", "devtools.timeline"]
    )
    act()
    events: list[dict[str, Any]] = json.loads(browser.stop_tracing())["traceEvents"]
    mains = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    tasks: dict[tuple[int, int], float] = {}
    for each in events:
        thread = (each["pid"], each["tid"])
        if thread in mains and each["name"] == "RunTask":
            tasks[thread] = tasks.get(thread, 0) + each.get("tdur", each.get("dur", 0))
    return max(tasks.values()) / 1e6


def _told(record: Callable[[str, object], None], what: str, seconds: float, goal: float) -> None:
    """Keep the number with the test's result, and fail if it is far from its goal."""
    record(what, f"{seconds * 1000:.0f} ms of the main thread, goal {goal * 1000:.0f} ms")
    assert seconds < goal * _SLACK, f"{what}: {seconds:.3f} s"


def test_a_graph_of_a_thousand_nodes_is_drawn_at_once(
    browser: Browser, visit: Visit, thousand: FakeServer, record_property: Callable[[str, object], None]
) -> None:
    """All 1,000 nodes with their states are painted within a second, and a click takes a twentieth."""
    page = visit(thousand, "/settings")

    def paint() -> None:
        page.goto(f"{thousand.url}/p/big?fold=0")
        expect(page.locator(".node")).to_have_count(1_020)
        page.evaluate(_PAINTED)

    def click() -> None:
        # Without the mouse of the test's driver, which itself works in the page.
        page.locator('.node[data-id="main.silver.t017_silver"]').dispatch_event("click")
        page.evaluate(_PAINTED)

    _told(record_property, "1,000 nodes", _worked(browser, page, paint), _GOAL_PAINT)
    _told(record_property, "click on a node", _worked(browser, page, click), _GOAL_CLICK)
    expect(page.get_by_role("complementary", name="Selected: t017_silver")).to_be_visible()


def test_a_log_of_a_hundred_thousand_events_opens_with_few(
    browser: Browser, visit: Visit, record_property: Callable[[str, object], None]
) -> None:
    """At most 200 events are read and few rows are drawn; older ones come as one scrolls up."""
    with serving(FakeServer(recorded.many_events())) as server:
        page = visit(server, "/settings")

        def open_log() -> None:
            page.goto(f"{server.url}/p/loud/events")
            expect(page.locator(".event").last).to_contain_text("batch 99999.")

        seconds = _worked(browser, page, open_log)
        expect(page.locator(".graph-foot")).to_contain_text("200 events read")
        assert page.locator(".event").count() < 60
        page.get_by_role("region", name="Events").evaluate("(box) => { box.scrollTop = 0; }")
        expect(page.locator(".graph-foot")).to_contain_text("400 events read")
        _told(record_property, "100,000 events", seconds, _GOAL_EVENTS)


def test_the_grid_scrolls_without_a_dropped_frame(
    browser: Browser, visit: Visit, thousand: FakeServer, record_property: Callable[[str, object], None]
) -> None:
    """A grid of 200 updates and 200 flows is drawn again within a frame when it scrolls."""
    page = visit(thousand, "/p/big/updates")
    box = page.get_by_role("group", name="Grid of updates and flows")
    expect(box).to_be_visible()
    steps = 30
    script = """async (box, steps) => {
      for (let step = 0; step < steps; step += 1) {
        box.scrollTop = step * 90; box.scrollLeft = 4000 - step * 70;
        await new Promise((done) => requestAnimationFrame(done));
      }
    }"""
    seconds = _worked(browser, page, lambda: box.evaluate(script, steps)) / steps
    _told(record_property, "a frame of the grid", seconds, _FRAME)
