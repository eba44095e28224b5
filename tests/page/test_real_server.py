"""The page talks to the real server: it signs in, shows recorded updates, and follows one that runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Visit
from tests.support.served_pipelines import root_of
from tests.support.server_world import World, listening, record_shop, world_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A world with its address."""

    world: World
    url: str


@pytest.fixture
def served_shop(tmp_path: Path) -> Iterator[Served]:
    """A server over the recorded pipeline `shop`, whose engine is a stand-in."""
    record_shop(tmp_path / "shop")
    with world_of(tmp_path) as world, listening(world) as url:
        yield Served(world=world, url=url)


def test_the_page_follows_an_update_of_the_real_server(served_shop: Served, visit: Visit) -> None:
    """The code of the address signs in; the header changes with the update, without a reload."""
    world = served_shop.world
    page = visit(served_shop, f"/#c={world.server.sessions.make_code()}")
    page.get_by_role("link", name="shop").first.click()
    header = page.locator("main").first
    expect(header).to_contain_text("idle")
    expect(page.locator("body")).to_contain_text("orders")
    (root_of(world.entry()) / "engine-wait").touch()
    world.post("/pipelines/shop/updates", {})
    expect(header).to_contain_text("running")
    (root_of(world.entry()) / "engine-wait").unlink()
    expect(header).to_contain_text("idle")


def test_without_a_session_the_page_says_how_to_sign_in(served_shop: Served, visit: Visit) -> None:
    """And shows nothing else."""
    page = visit(served_shop, "/p/shop")
    expect(page.locator("body")).to_contain_text("sluice open")
    expect(page.locator("body")).not_to_contain_text("orders")
