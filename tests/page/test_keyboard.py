"""Everything is reached by the keyboard, and the page names the command for each action."""

from __future__ import annotations

import re
from urllib.parse import urlparse

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Visit
from tests.page.fake_server import FakeServer


@pytest.mark.parametrize(
    ("keys", "path"),
    [("g h", "/"), ("g u", "/p/shop/updates"), ("g e", "/p/shop/events"), ("g d", "/p/shop/doctor"),
     ("g q", "/p/shop/quarantine"), ("g i", "/p/shop/ingest"), ("g c", "/schedules"), ("g s", "/settings")],
)  # fmt: skip
def test_two_letters_go_to_a_screen(visit: Visit, healthy: FakeServer, keys: str, path: str) -> None:
    """`g` and a letter go to each screen."""
    page = visit(healthy, "/p/shop/updates" if keys != "g u" else "/p/shop")
    expect(page.locator("h1")).to_be_visible()
    for each in keys.split():
        page.keyboard.press(each)
    page.wait_for_url(f"**{path}")


def test_rows_are_walked_and_opened(visit: Visit, healthy: FakeServer) -> None:
    """`j` and `k` move over rows, Enter opens one, `/` goes to the search, Escape leaves it."""
    page = visit(healthy, "/")
    expect(page.locator(".pipeline-row")).to_have_count(7)
    for key in ("j", "j", "j", "k"):
        page.keyboard.press(key)
    expect(page.locator(".pipeline-row:focus")).to_contain_text("flights")
    page.keyboard.press("/")
    expect(page.get_by_label("Filter pipelines")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/p/shop")


def test_the_palette_finds_actions_and_teaches_the_command(visit: Visit, healthy: FakeServer) -> None:
    """Ctrl-K searches all actions of the screen; each has its key and its command."""
    page = visit(healthy, "/p/shop")
    expect(page.locator(".node").first).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("doctor")
    expect(page.get_by_role("option")).to_have_count(1)
    expect(page.locator(".palette-cli code")).to_have_text("sluice doctor")
    page.keyboard.press("Enter")
    page.wait_for_url("**/p/shop/doctor")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Ctrl K")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_graph_is_walked_by_arrows(visit: Visit, healthy: FakeServer) -> None:
    """Arrows select the next node in their direction, and Enter opens it."""
    page = visit(healthy, "/p/shop")
    page.locator(".node").first.wait_for()
    page.locator(".graph svg").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    chosen = page.locator(".node.chosen")
    expect(chosen).to_have_attribute("data-id", re.compile(r"main\.shop\."))
    name = chosen.get_attribute("data-id")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/p/shop/d/{name}")


def test_a_dialog_takes_the_focus_and_gives_it_back(visit: Visit, healthy: FakeServer) -> None:
    """`r` opens the plan; Escape closes it, and the focus is where it was."""
    page = visit(healthy, "/p/shop")
    button = page.get_by_role("button", name="Plan & run")
    button.focus()
    page.keyboard.press("r")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()


def test_the_theme_is_kept(visit: Visit, healthy: FakeServer) -> None:
    """Light, dark and automatic follow each other by one button, and a reload keeps the choice."""
    page = visit(healthy, "/", color_scheme="light")
    page.get_by_role("button", name=re.compile("Colours: auto")).click()
    page.get_by_role("button", name=re.compile("Colours: light")).click()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert urlparse(page.url).path == "/"
