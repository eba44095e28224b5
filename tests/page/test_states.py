"""Empty and broken states, roles, features, sign-in, and the stream."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.page import recorded
from tests.page.conftest import Visit
from tests.page.fake_server import FakeServer, serving
from tests.page.healthy import seven_pipelines
from tests.page.worlds import World, event, row, state, uid, update

FEW = ("jobs.plan", "jobs.plan.refresh_selection")


@pytest.fixture(scope="module")
def small() -> Iterator[FakeServer]:
    """A server that answers little: no jobs but plans, and a user who may look only."""
    world = seven_pipelines()
    with serving(FakeServer(World(rows=world.rows, graphs=world.graphs, updates=world.updates, events=world.events,
                                  datasets=world.datasets, role="view", features=FEW))) as server:  # fmt: skip
        yield server


@pytest.fixture
def own() -> Iterator[FakeServer]:
    """A server of the test's own, whose answers it changes."""
    with serving(FakeServer(seven_pipelines())) as server:
        yield server


def test_without_a_pipeline_the_page_says_how_to_make_one(visit: Visit) -> None:
    """The empty home names the folders and has the command to copy."""
    with serving(FakeServer(recorded.empty())) as server:
        page = visit(server, "/")
        expect(page.locator(".empty")).to_contain_text("No pipeline.yml below /home/ada/data.")
        expect(page.locator(".empty code")).to_have_text("sluice init shop")


def test_a_spec_that_cannot_be_loaded_is_on_the_home_screen(visit: Visit, broken: FakeServer) -> None:
    """The fault has its condition, its file and what to do, and the other pipelines stay usable."""
    page = visit(broken, "/")
    expect(page.locator(".note")).to_contain_text("SPEC_FIELD_UNKNOWN")
    expect(page.locator(".note")).to_contain_text("/home/ada/data/typo/pipeline.yml")
    expect(page.locator(".pipeline-row .name")).to_have_text(["fresh", "shop"])


def test_a_storage_that_cannot_be_read_keeps_its_row(visit: Visit, healthy: FakeServer) -> None:
    """The row says why, with the remedy, and shows no value that is not known."""
    archive = visit(healthy, "/").locator(".pipeline-row", has_text="archive")
    expect(archive).to_contain_text("STORAGE_NOT_READABLE")
    expect(archive).to_contain_text("Grant s3:ListBucket")
    expect(archive).not_to_contain_text("never run")


def test_a_pipeline_that_never_ran_offers_its_plan(visit: Visit, broken: FakeServer) -> None:
    """Without a stored graph the screen says so, and has the command that stores one."""
    page = visit(broken, "/p/fresh")
    expect(page.locator(".empty")).to_contain_text("Never run.")
    expect(page.locator(".empty code")).to_have_text("sluice validate")


def test_definitions_that_are_not_resolved_are_shown_with_their_errors(visit: Visit, broken: FakeServer) -> None:
    """All errors have file and line; the nodes say in words that they are not resolved."""
    page = visit(broken, "/p/shop")
    expect(page.get_by_role("alert")).to_contain_text("transformations/shop.py:31")
    expect(page.locator('.node[data-id="main.shop.bad"] .note')).to_have_text("not resolved")


def test_a_lost_update_is_neither_failed_nor_running(visit: Visit, broken: FakeServer) -> None:
    """Its process ended without a word: the page says so and shows the last lines of its log, to who may read."""
    page = visit(broken, f"/p/shop/u/{uid('shop', 2)}")
    expect(page.locator(".update-head .mark")).to_have_text(re.compile("lost"))
    expect(page.get_by_role("alert")).to_contain_text("ended without a word on etl-1 (process 4711)")


@pytest.mark.parametrize(
    "path", ["/nothing", "/p/shop/nothing", "/p/nothing", "/mirrors", "/p/shop/u/none", "/p/shop/d/none"]
)
def test_a_path_that_does_not_exist_says_so(visit: Visit, healthy: FakeServer, path: str) -> None:
    """No path shows an empty page."""
    expect(visit(healthy, path).locator("main")).to_contain_text(
        re.compile("nothing at|No such|no such|No pipelines/nothing|declares no")
    )


@pytest.mark.parametrize("path", ["/schedules", "/p/shop/doctor", "/p/shop/quarantine", "/p/shop/ingest"])
def test_screens_that_the_server_does_not_answer_are_not_there(visit: Visit, small: FakeServer, path: str) -> None:
    """Neither a link nor an address leads to a screen whose routes the server does not have."""
    page = visit(small, path)
    expect(page.locator("main")).to_contain_text("There is nothing at")
    page.goto(f"{small.url}/p/shop")
    expect(page.locator(".node").first).to_be_visible()
    links = page.eval_on_selector_all("a[href]", "found => found.map(each => each.getAttribute('href'))")
    assert [each for each in links if re.search("schedules|doctor|quarantine|ingest", each)] == []
    assert [each for each in small.gets if re.search("schedules|doctor|lag|alerts|tokens", each)] == []


def test_who_may_look_only_changes_nothing(visit: Visit, small: FakeServer) -> None:
    """The buttons of what the role may not do are disabled and say which role does it."""
    page = visit(small, "/p/shop")
    run = page.get_by_role("button", name="Plan & run")
    expect(run).to_be_disabled()
    expect(run).to_have_attribute("title", "Needs the role operate.")
    expect(page.get_by_role("button", name="Stop")).to_be_disabled()
    page.keyboard.press("r")
    page.goto(f"{small.url}/p/shop?run=all")
    expect(page.locator(".node").first).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.goto(f"{small.url}/p/shop/d/main.shop.orders?tab=rows")
    expect(page.get_by_role("tab")).to_have_text(
        [re.compile(each) for each in ("Columns", "Quality", "Flows", "History", "Lineage")]
    )
    assert small.posts == []


def test_a_browser_without_a_session_is_told_how_to_get_one(visit: Visit, own: FakeServer) -> None:
    """No token is typed: the page names the command, and a code in the address signs in once and leaves it."""
    own.signed_in = False
    page = visit(own, "/")
    expect(page.locator(".sign-in code").last).to_have_text("sluice open")
    page.goto(f"{own.url}/p/shop#c=good")
    page.reload()
    expect(page.locator(".node").first).to_be_visible()
    assert page.url == f"{own.url}/p/shop"
    assert own.posts[0] == ("session", {"code": "good"})


def test_a_used_code_does_not_sign_in(visit: Visit, own: FakeServer) -> None:
    """The page says why, and asks for another address."""
    own.signed_in = False
    page = visit(own, "/#c=used")
    expect(page.locator(".sign-in")).to_be_visible()
    expect(page.locator(".sign-in")).to_contain_text("It was used.")


def test_changes_arrive_by_the_stream_without_a_request(visit: Visit, own: FakeServer) -> None:
    """A row, a flow's state and an event of the stream are on the page without a reload."""
    page = visit(own, "/")
    expect(page.locator(".fresh")).to_have_text(re.compile("live"))
    asked = len(own.gets)
    own.publish("pipeline", row("crm", activity="RUNNING", update=update("crm", 26, "RUNNING", hours=0)))
    expect(page.locator(".pipeline-row", has_text="crm").locator(".activity")).to_contain_text("running")
    assert own.gets[asked:] == []
    page.get_by_role("link", name="shop", exact=True).click()
    flow = state("main.shop.revenue", "COMPLETED", rows=77)
    expect(page.locator('.node[data-id="main.shop.revenue"] .note')).to_have_text("waiting")
    own.wait_for_stream("shop")
    own.publish("flow", {"pipeline_id": uid("shop"), "update_id": uid("shop", 25), "flow": flow})
    expect(page.locator('.node[data-id="main.shop.revenue"] .note')).to_have_text("completed · 77 rows")
    page.get_by_role("link", name="Events").click()
    expect(page.locator(".event")).to_have_count(10)
    own.publish("event", {"pipeline_id": uid("shop"), "event": event("shop", 99, "A new word.")})
    expect(page.locator(".event").last).to_contain_text("A new word.")


def test_a_server_that_goes_leaves_the_data_with_its_time(visit: Visit) -> None:
    """The page says that it reconnects and from when its data is; nothing is blanked."""
    with serving(FakeServer(seven_pipelines())) as server:
        page = visit(server, "/")
        expect(page.locator(".fresh")).to_have_text(re.compile("live"))
    expect(page.locator(".fresh")).to_have_text(re.compile(r"reconnecting, data from \d\d:\d\d:\d\d"))
    expect(page.locator(".pipeline-row")).to_have_count(7)


def test_a_failed_request_stays_in_its_dialog(visit: Visit, own: FakeServer) -> None:
    """An action that the server refuses closes nothing and shows the condition with its remedy."""
    own.refusals["pipelines/shop/stop"] = (409, "UPDATE_NOT_RUNNING", "The update has ended.", "Read the page again.")
    page = visit(own, "/p/shop")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("UPDATE_NOT_RUNNING")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Read the page again.")


def test_tabs_share_one_stream(visit: Visit, own: FakeServer) -> None:
    """A second tab reads no stream of its own, and takes over when the first one closes."""
    first = visit(own, "/")
    expect(first.locator(".fresh")).to_have_text(re.compile("live"))
    second = first.context.new_page()
    second.goto(own.url)
    expect(second.locator(".fresh")).to_have_text(re.compile("live"))
    assert own.streams == 1
    own.publish("pipeline", row("crm", activity="RUNNING"))
    expect(second.locator(".pipeline-row", has_text="crm").locator(".activity")).to_contain_text("running")
    first.close()
    own.wait_for_stream("home", asked=2)
    own.publish("pipeline", row("crm", activity="STOPPING"))
    expect(second.locator(".pipeline-row", has_text="crm").locator(".activity")).to_contain_text("stopping")
