"""Orders of arrival that a test tries."""

from __future__ import annotations

from itertools import chain

import pytest

from framework.sandbox.expectations.any_order import drawn_orders, items_of
from framework.sandbox.given_source import Batch
from tests.support.spark_types import schema


@pytest.mark.parametrize("count", [2, 3, 7])
def test_orders_have_each_item_once_in_two_or_three_batches(count: int) -> None:
    """No batch is empty, and no order is tried twice."""
    orders = list(drawn_orders(count, 20, seed=1))
    assert len(orders) == len({*orders})
    for order in orders:
        assert [*range(count)] == sorted(chain(*order))
        assert len(order) in {2, min(count, 3)}
        assert all(order)


def test_two_items_have_two_orders() -> None:
    """More would be the same ones again."""
    assert {((0,), (1,)), ((1,), (0,))} == {*drawn_orders(2, 20, seed=1)}


def test_the_seed_decides_the_orders() -> None:
    """A failure can be repeated."""
    first, again, other = (list(drawn_orders(9, 5, seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_rows_arrive_one_by_one_and_files_as_a_whole() -> None:
    """Rows keep the form in which the test wrote them."""
    file = Batch(value=(), content=b"{}", file="a.json")
    batches = [Batch(value=[(1, "a"), {"id": 2}]), file, Batch(value="id | name\n3 | c")]
    assert [(1, "a"), {"id": 2}, file, {"id": "3", "name": "c"}] == [item.value for item in items_of(batches)]


def test_rows_by_position_have_the_columns_of_earlier_batches() -> None:
    """So each of them can arrive first."""
    columns = schema("id: int")
    batches = [Batch(value=[(1,)], schema=columns), Batch(value=[(2,), {"id": 3}])]
    assert [columns, columns, None] == [item.schema for item in items_of(batches)]
