"""Click paths of every screen, on recorded answers."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Visit
from tests.page.fake_server import FakeServer
from tests.page.worlds import uid

ORDERS = "/p/shop/d/main.shop.orders"


def _path(page: Page) -> str:
    return urlparse(page.url).path


def _query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlparse(page.url).query)


def _posted(server: FakeServer, path: str) -> list[dict[str, object]]:
    return [body for asked, body in server.posts if asked == path]


def test_home_shows_activity_and_last_outcome_of_each_pipeline(visit: Visit, healthy: FakeServer) -> None:
    """Each row has what runs now and how it ended last, as two marks, and what needs a person."""
    page = visit(healthy, "/")
    shop = page.locator(".pipeline-row", has=page.get_by_role("link", name="shop", exact=True))
    expect(shop.locator(".activity .mark")).to_have_text(re.compile("running"))
    expect(shop.locator(".outcome .mark")).to_have_text(re.compile("completed"))
    expect(page.locator(".summary")).to_contain_text("3 need you")
    page.get_by_role("button", name="Needs you").click()
    expect(page.locator(".pipeline-row .name")).to_have_text(["flights", "nightly", "archive"])
    page.get_by_label("Filter pipelines").fill("fli")
    expect(page.locator(".pipeline-row .name")).to_have_text(["flights"])
    assert _query(page) == {"show": ["attention"], "q": ["fli"]}
    page.reload()
    expect(page.locator(".pipeline-row .name")).to_have_text(["flights"])
    page.get_by_role("link", name="Doctor").click()
    expect(page.get_by_role("heading", name="raw")).to_be_visible()


def test_a_node_of_the_graph_opens_its_facts_and_its_dataset(visit: Visit, healthy: FakeServer) -> None:
    """A click selects a node, the panel has its numbers and links, and the back button leads back."""
    page = visit(healthy, "/p/shop")
    page.locator('.node[data-id="main.shop.orders"]').click()
    side = page.get_by_role("complementary", name="Selected: orders")
    expect(side).to_contain_text("12,004 rows")
    expect(side).to_contain_text("3 rows, 913 B, 4 s")
    side.get_by_role("button", name="revenue").click()
    expect(page.get_by_role("complementary", name="Selected: revenue")).to_be_visible()
    page.get_by_role("link", name="Open").click()
    assert _path(page) == "/p/shop/d/main.shop.revenue"
    page.go_back()
    expect(page.get_by_role("complementary", name="Selected: revenue")).to_be_visible()
    page.locator(".graph svg").click(position={"x": 10, "y": 10})
    expect(page.get_by_role("complementary")).to_have_count(0)


def test_states_of_nodes_have_a_shape_and_a_word(visit: Visit, healthy: FakeServer) -> None:
    """A node says its state by a glyph and in words, beside its colour."""
    page = visit(healthy, "/p/shop")
    node = page.locator('.node[data-id="main.shop.by_city"]')
    expect(node.locator(".node-mark text")).to_have_text("\N{EN DASH}")
    expect(node.locator(".note")).to_have_text("skipped")
    expect(page.locator('.node[data-id="main.shop.users"] .node-mark text')).to_have_text("✕")


def test_a_selection_dims_the_other_nodes_and_runs_what_it_selects(visit: Visit, healthy: FakeServer) -> None:
    """`revenue+` draws revenue and its readers only, and `Run these` plans exactly these datasets."""
    page = visit(healthy, "/p/shop")
    page.get_by_label("Select datasets").fill("returns")
    expect(page.locator('.node[data-id="main.shop.orders"]')).to_have_class(re.compile(r"\bdim\b"))
    page.get_by_label("Select datasets").fill("revenue+")
    expect(page.locator(".node")).to_have_count(2)
    page.get_by_role("button", name="Run these").click()
    expect(page.get_by_role("dialog")).to_contain_text("Selected (2)")
    expect(page.locator("dialog .steps li")).to_have_count(5)
    assert _posted(healthy, "pipelines/shop/jobs/plan") == [
        {"refresh_selection": ["main.shop.revenue", "main.shop.daily"]}
    ]


def test_the_list_shows_flows_by_attention(visit: Visit, healthy: FakeServer) -> None:
    """The first flow is the one that needs a person."""
    page = visit(healthy, "/p/shop")
    page.get_by_role("button", name="List", exact=True).click()
    expect(page.locator("tbody tr").first).to_contain_text("users")
    page.locator("tbody tr").nth(1).click()
    assert _path(page) == ORDERS


def test_run_shows_the_plan_and_starts_what_it_shows(visit: Visit, healthy: FakeServer) -> None:
    """The dialog has the steps with reasons; its button starts an update with the same selection, and opens it."""
    page = visit(healthy, "/p/shop")
    page.get_by_role("button", name="Plan & run").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".steps li .mark")).to_have_text(
        [re.compile(word) for word in ("run", "would fail", "refresh if changed", "skip", "wait")]
    )
    dialog.get_by_label("Reason").fill("TICKET-7")
    dialog.get_by_role("button", name="Queue 2 steps").click()
    expect(page.get_by_role("heading", name="Update")).to_be_visible()
    assert _path(page) == f"/p/shop/u/{uid('shop', 25)}"
    assert _posted(healthy, "pipelines/shop/updates") == [
        {"cause": "USER_ACTION", "sluice": {"reason": "TICKET-7", "queue": True}}
    ]


def test_a_full_refresh_is_confirmed_by_typing(visit: Visit, healthy: FakeServer) -> None:
    """A full refresh can't be started by a click: the pipeline's name is typed first."""
    page = visit(healthy, "/p/shop?run=all")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Full refresh").click()
    run = dialog.get_by_role("button", name="Queue 2 steps")
    expect(run).to_be_disabled()
    dialog.get_by_label("Type shop to confirm").fill("sho")
    expect(run).to_be_disabled()
    dialog.get_by_label("keep history").check()
    dialog.get_by_label("Type shop to confirm").fill("shop")
    run.click()
    expect(dialog).to_have_count(0)
    assert _posted(healthy, "pipelines/shop/jobs/plan")[-1] == {"full_refresh": True}
    assert _posted(healthy, "pipelines/shop/updates") == [
        {"full_refresh": True, "cause": "USER_ACTION", "sluice": {"keep_history": True, "queue": True}}
    ]


def test_stop_says_what_it_does_and_sends_the_reason(visit: Visit, healthy: FakeServer) -> None:
    """The running update is stopped by its id, with a reason for the event log."""
    page = visit(healthy, "/p/shop")
    page.get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("nothing is lost or repeated")
    dialog.get_by_label("Reason").fill("deploy")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(dialog).to_have_count(0)
    assert _posted(healthy, "pipelines/shop/stop") == [{"reason": "deploy", "update_id": uid("shop", 25)}]


def test_a_cell_of_the_grid_opens_its_update(visit: Visit, healthy: FakeServer) -> None:
    """The arrow keys move over the grid, its text says what a cell means, and Enter opens the update."""
    page = visit(healthy, "/p/shop/updates")
    grid = page.get_by_role("group", name="Grid of updates and flows")
    grid.focus()
    for key in ("ArrowLeft", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator(".grid-text")).to_contain_text(f"Update {uid('shop', 25)[:8]}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Update")).to_be_visible()
    assert _path(page) == f"/p/shop/u/{uid('shop', 25)}"


def test_attempts_of_a_request_are_one_row(visit: Visit, healthy: FakeServer) -> None:
    """Three attempts of one request are one row with three marks, each a link."""
    page = visit(healthy, "/p/shop/updates?view=list")
    attempts = page.locator("tr .attempts")
    expect(attempts).to_have_count(1)
    expect(attempts.locator("a")).to_have_count(3)
    attempts.locator("a").first.click()
    expect(page.locator(".update-head")).to_contain_text("attempt 1 of 3")
    expect(page.get_by_role("alert")).to_contain_text("a column of the keys is missing")


@pytest.mark.parametrize(
    ("tab", "text"),
    [
        ("Timeline", "By attention"),
        ("Flows", "no new data in orders since v41"),
        ("Events", "events read"),
        ("Plan it had", "APPEND"),
        ("Compare", "This one took"),
        ("Log", "Killed"),
    ],
)
def test_an_update_has_its_parts(visit: Visit, healthy: FakeServer, tab: str, text: str) -> None:
    """Timeline, flows, events, plan, comparison and log are tabs whose choice is in the address."""
    page = visit(healthy, f"/p/shop/u/{uid('shop', 24)}")
    page.get_by_role("tab", name=tab).click()
    expect(page.locator("main")).to_contain_text(text)
    page.reload()
    expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
    expect(page.locator("main")).to_contain_text(text)


def test_a_rewind_is_tried_before_it_is_done(visit: Visit, healthy: FakeServer) -> None:
    """Its button is enabled after the dry run, and both requests name the update."""
    page = visit(healthy, f"/p/shop/u/{uid('shop', 24)}")
    page.get_by_role("button", name="Rewind to its end").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Rewind", exact=True)).to_be_disabled()
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog).to_contain_text("2 tables and 1 flow go back")
    dialog.get_by_role("button", name="Rewind", exact=True).click()
    expect(dialog).to_have_count(0)
    asked = _posted(healthy, "pipelines/shop/jobs/rewind")
    assert [each["dry_run"] for each in asked] == [True, False]
    assert {each["to"] for each in asked} == {uid("shop", 24)}


def test_events_are_filtered_and_have_links(visit: Visit, healthy: FakeServer) -> None:
    """Level and text filter the log; a click shows the event, whose address opens it again."""
    page = visit(healthy, "/p/shop/events")
    page.get_by_role("button", name="Errors").click()
    expect(page.locator(".event")).to_have_count(1)
    page.locator(".event").click()
    expect(page.get_by_role("complementary", name="Selected event")).to_contain_text("main.shop.users")
    page.reload()
    expect(page.get_by_role("complementary", name="Selected event")).to_contain_text("main.shop.users")
    page.get_by_label("Text of events").fill("nothing like it")
    expect(page.locator(".empty")).to_have_text(re.compile("No event fits"))


@pytest.mark.parametrize(
    ("tab", "text"),
    [
        ("Columns", "decimal(10,2)"),
        ("Rows", "60 rows, all of it"),
        ("Quality", "127 failed"),
        ("Flows", "TICKET-7"),
        ("History", "STREAMING UPDATE"),
        ("Lineage", "Read by by_city, revenue, customers, to_kafka"),
    ],
)
def test_a_dataset_has_its_parts(visit: Visit, healthy: FakeServer, tab: str, text: str) -> None:
    """Columns, rows, quality, flows with generations, history and lineage are tabs."""
    page = visit(healthy, ORDERS)
    page.get_by_role("tab", name=tab).click()
    expect(page.locator(".tab-body")).to_contain_text(text)


def test_rows_are_read_at_a_version_and_copied(visit: Visit, healthy: FakeServer) -> None:
    """The version is in the request; null differs from the text, and the copy is CSV as it should be."""
    page = visit(healthy, f"{ORDERS}?tab=history", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="rows at 40", exact=True).click()
    expect(page.locator("td i.null").first).to_have_text("null")
    assert _posted(healthy, "pipelines/shop/jobs/rows") == [
        {"dataset": "main.shop.orders", "limit": 100, "version": 40}
    ]
    page.get_by_role("button", name="Copy rows").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0] == "id,city,amount,ordered_at,lines"
    assert lines[1].startswith('0,"null, ""quoted""",0,')
    assert lines[4].startswith("3,,3.75,")


def test_a_generation_is_rolled_back_after_its_dry_run(visit: Visit, healthy: FakeServer) -> None:
    """The dialog shows what happens, and its requests name flow and generation."""
    page = visit(healthy, f"{ORDERS}?tab=flows")
    page.get_by_role("button", name="Roll back").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog).to_contain_text("generation 2 -> generation 1")
    dialog.get_by_role("button", name="Roll back", exact=True).click()
    expect(dialog).to_have_count(0)
    asked = {"flow": "main.shop.orders", "generation": 1}
    assert _posted(healthy, "pipelines/shop/jobs/checkpoints-rollback") == [
        {**asked, "dry_run": True}, {**asked, "dry_run": False}
    ]  # fmt: skip


def test_a_way_out_is_tried_explained_and_done(visit: Visit, healthy: FakeServer) -> None:
    """Dry run, reason, do: the request has the finding's digest, so that another finding is never repaired."""
    page = visit(healthy, "/p/shop/doctor")
    finding = page.get_by_role("article")
    expect(finding).to_contain_text("DELTA_SOURCE_CHANGED")
    expect(finding.locator(".ways tbody tr").nth(2)).to_contain_text("2 rows")
    finding.locator(".ways tbody tr").nth(2).get_by_role("button", name="Dry run").click()
    dialog = page.get_by_role("dialog")
    do = dialog.get_by_role("button", name="Do 3")
    dialog.get_by_role("button", name="Dry run", exact=True).click()
    expect(dialog).to_contain_text("Dry run: nothing was changed")
    expect(do).to_be_disabled()
    dialog.get_by_label("Type users to confirm").fill("users")
    dialog.get_by_label("Reason").fill("TICKET-9")
    do.click()
    expect(dialog).to_have_count(0)
    way = {"finding": 1, "way": 3, "expect": "d1"}
    assert _posted(healthy, "pipelines/shop/doctor/ways") == [
        {**way, "dry_run": True}, {**way, "dry_run": False, "reason": "TICKET-9"}
    ]  # fmt: skip


def test_quarantined_rows_are_replayed_after_a_dry_run(visit: Visit, healthy: FakeServer) -> None:
    """A group opens its rows; a replay says first how many would be written and which fail again."""
    page = visit(healthy, "/p/shop/quarantine")
    page.get_by_role("link", name="customers").click()
    expect(page.get_by_role("heading", name="Rows of customers")).to_be_visible()
    expect(page.get_by_role("region", name="Quarantined rows", exact=True)).to_contain_text(
        "data/orders/2026-11-28.json"
    )
    page.get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog).to_contain_text("2 rows would be written to customers")
    expect(dialog).to_contain_text("1 row fails again: positive_amount")
    dialog.get_by_role("button", name="Replay", exact=True).click()
    expect(dialog).to_have_count(0)
    assert [each["dry_run"] for each in _posted(healthy, "pipelines/shop/jobs/quarantine-replay")] == [True, False]


def test_the_chunk_map_counts_each_kind_of_chunk(visit: Visit, healthy: FakeServer) -> None:
    """The legend has the number of chunks of each state, and where the engine was killed."""
    page = visit(healthy, "/p/bank/ingest")
    page.get_by_role("link", name="public.events").click()
    expect(page.get_by_role("img", name="1,204 of 1,940 chunks committed")).to_be_visible()
    expect(page.locator(".chunks .legend li")).to_have_count(6)
    expect(page.locator(".chunks .legend")).to_contain_text("read again 3")
    expect(page.locator(".chunks .legend")).to_contain_text("killed here")


def test_a_snapshot_is_skipped_only_by_typing_its_table(visit: Visit, healthy: FakeServer) -> None:
    """What may leave rows out is confirmed by the table's name."""
    page = visit(healthy, "/p/bank/ingest?table=public.events")
    page.get_by_role("button", name="Skip snapshot").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="skip snapshot")).to_be_disabled()
    dialog.get_by_label("Type public.events to confirm").fill("public.events")
    dialog.get_by_role("button", name="skip snapshot").click()
    expect(dialog).to_have_count(0)
    assert _posted(healthy, "pipelines/bank/jobs/ingest-skip-snapshot") == [
        {"gateway": "bank_gateway", "table": "public.events"}
    ]


def test_preflight_has_statements_to_copy(visit: Visit, healthy: FakeServer) -> None:
    """A finding of the preflight has the statement that mends it."""
    page = visit(healthy, "/p/bank/ingest")
    page.get_by_role("button", name="Check the databases").click()
    expect(page.get_by_role("region", name="Findings")).to_contain_text("REPLICA IDENTITY FULL")


def test_a_schedule_is_paused(visit: Visit, healthy: FakeServer) -> None:
    """The schedules have their next runs, what was missed, and buttons that act."""
    page = visit(healthy, "/schedules")
    flights = page.locator(".schedule", has_text="flights")
    expect(flights).to_contain_text("missed 1 run, the last one at")
    expect(page.locator(".schedule", has_text="bank")).to_contain_text("nothing new")
    flights.get_by_role("button", name="Pause").click()
    expect(page.locator(".toasts")).to_contain_text("flights: paused.")
    assert healthy.posts == [("schedules/flights/pause", {"reason": ""})]


def test_a_new_token_is_shown_once(visit: Visit, healthy: FakeServer) -> None:
    """A token has a name and a role; its text is only in the answer that made it."""
    page = visit(healthy, "/settings")
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("grafana")
    dialog.get_by_role("button", name="read", exact=True).click()
    dialog.get_by_role("button", name="Make").click()
    expect(dialog).to_contain_text("slk_t2_secret")
    assert healthy.posts == [("tokens", {"name": "grafana", "role": "read"})]
    dialog.locator("footer").get_by_role("button", name="Close").click()
    expect(page.locator("main")).not_to_contain_text("slk_t2_secret")
