"""Servers that are empty, broken or big."""

from __future__ import annotations

from tests.page.healthy import small
from tests.page.worlds import (
    World,
    ago,
    dataset,
    event,
    flow,
    graph,
    recent,
    row,
    state,
    update,
)

_SHOP = "main.shop."


def empty() -> World:
    """A server whose folders have no pipeline."""
    return World()


def broken() -> World:
    """A spec that can't be loaded, definitions that can't be resolved, and a pipeline that was never run."""
    world = World(role="view")
    world.faults.append(
        {"file": "/home/ada/data/typo/pipeline.yml", "condition": "SPEC_FIELD_UNKNOWN",
         "what": "`continous` is no field of a spec.", "remedy": "Did you mean `continuous`?"}
    )  # fmt: skip
    world.rows.append(row("fresh"))
    orders, bad = _SHOP + "orders", _SHOP + "bad"
    error = (
        "[COLUMN_NOT_FOUND] `amuont` is no column of orders.\n  at transformations/shop.py:31\n  Did you mean amount?"
    )
    world.graphs["shop"] = graph(
        "shop",
        [dataset(orders), dataset(bad, "materialized_view", error=error, schema=None),
         dataset(_SHOP + "after", waits_for=[bad], schema=None)],
        [flow(orders, ["data/orders"]), flow(bad, [orders], streaming=False), flow(_SHOP + "after", [bad])],
        [state(orders, "COMPLETED", rows=1)],
    )  # fmt: skip
    lost = update("shop", 2, "LOST", hours=2, seconds=None, ended_at=ago(hours=2))
    world.rows.append(row("shop", last=lost, recent=recent("COMPLETED", "LOST")))
    world.updates["shop"] = [update("shop", 1, hours=5), lost]
    return world


def thousand_nodes(count: int = 1_000) -> World:
    """A pipeline of many datasets in eight schemas, and a grid of 200 updates and 200 flows."""
    world = World()
    schemas = ("landing", "bronze", "clean", "silver", "joined", "gold", "marts", "exports")
    per = count // len(schemas)
    datasets, flows, states = [], [], []
    for layer, schema in enumerate(schemas):
        for number in range(per):
            name = f"main.{schema}.t{number:03d}_{schema}"
            before = f"main.{schemas[layer - 1]}.t{{:03d}}_{schemas[layer - 1]}"
            reads = [before.format(number), before.format((number * 7 + 3) % per)] if layer else [f"data/{number % 20}"]
            datasets.append(dataset(name, "materialized_view" if layer > 4 else "streaming_table"))
            flows.append(flow(name, reads, streaming=layer < 5))
            states.append(state(name, "FAILED" if number == 17 and layer == 3 else "COMPLETED", rows=number * 1_000))
    world.graphs["big"] = graph("big", datasets, flows, states)
    world.rows.append(row("big", last=update("big", 200), recent=recent(*["COMPLETED"] * 14)))
    world.updates["big"] = [update("big", number, hours=(201 - number) * 2) for number in range(1, 201)]
    return world


def many_events(count: int = 100_000) -> World:
    """A pipeline with a log of many events."""
    world = World(rows=[row("loud", last=update("loud", 1))], updates={"loud": [update("loud", 1)]})
    world.graphs["loud"] = small("loud")
    world.events["loud"] = [
        event("loud", number, f"Flow main.loud.raw has written batch {number}.", flow="main.loud.raw",
              dataset="main.loud.raw", level="WARN" if number % 500 == 0 else "INFO",
              timestamp=ago(seconds=count - number))
        for number in range(count)
    ]  # fmt: skip
    return world
