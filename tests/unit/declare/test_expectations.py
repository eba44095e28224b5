"""Expectations: stacked above or below, in any number, they reach their dataset."""

from __future__ import annotations

from typing import Any

import pytest

from framework import pipelines as dp
from framework.declare.registry import Registry
from framework.declare.specs import ViolationAction
from framework.foundation.errors import UserError

face: Any = dp  # modules are not type-checked: they pass what they like
WARN, DROP, FAIL = ViolationAction.WARN, ViolationAction.DROP, ViolationAction.FAIL


def declared(registry: Registry) -> list[list[tuple[str, str, ViolationAction]]]:
    """Name, condition and action of the expectations of each dataset."""
    return [
        [(each.name, each.condition, each.action) for each in dataset.expectations] for dataset in registry.datasets
    ]


def test_expectations_above_and_below_keep_their_order_from_top_to_bottom(registry: Registry) -> None:
    """The registered specs do not depend on the order of decorators."""

    @dp.expect("a", "x > 1")
    @dp.expect_all_or_drop({"b": "x > 2", "c": "x > 3"})
    @dp.table
    @dp.expect_or_fail("d", "x > 4")
    @dp.expect_or_drop("e", "x > 5")
    def orders() -> Any:
        return "rows"

    assert declared(registry) == [
        [
            ("a", "x > 1", WARN),
            ("b", "x > 2", DROP),
            ("c", "x > 3", DROP),
            ("d", "x > 4", FAIL),
            ("e", "x > 5", DROP),
        ]
    ]
    assert registry.waiting_expectations == []
    kept: Any = orders
    assert kept() == "rows"


def test_all_six_and_the_arguments_of_a_streaming_table_have_their_action(registry: Registry) -> None:
    """Views accept expectations too."""

    @dp.expect_all({"a": "1 = 1"})
    @dp.expect_all_or_fail({"b": "2 = 2"})
    @dp.view
    def checked() -> Any:
        return None

    dp.create_streaming_table(
        "t", expect_all={"a": "x"}, expect_all_or_drop={"b": "y"}, expect_all_or_fail={"c": "z", "d": "w"}
    )
    assert declared(registry) == [
        [("a", "1 = 1", WARN), ("b", "2 = 2", FAIL)],
        [("a", "x", WARN), ("b", "y", DROP), ("c", "z", FAIL), ("d", "w", FAIL)],
    ]


def test_a_function_may_make_several_datasets_each_with_its_own(registry: Registry) -> None:
    """Expectations above one dataset do not apply to another."""

    def rows() -> Any:
        return None

    checked = dp.expect("shared", "x > 0")(rows)
    dp.expect("first", "x > 1")(dp.table(name="a")(checked))
    dp.table(name="b")(checked)
    dp.table(name="c")(rows)
    assert [[name for name, _, _ in each] for each in declared(registry)] == [["first", "shared"], ["shared"], []]


def test_an_expectation_of_a_plain_function_waits_where_the_loader_finds_it(registry: Registry) -> None:
    """The loader finds it."""

    @dp.expect("a", "x > 1")
    def plain() -> Any:
        return None

    assert [each.name for each in registry.waiting_expectations] == ["a"]


def test_expectations_of_flows_are_refused(registry: Registry) -> None:
    """They belong to the target, as the error says."""
    with pytest.raises(UserError) as caught:
        face.append_flow("t", "f")(face.expect("a", "x")(lambda: None))
    assert caught.value.condition == "EXPECTATION_ON_FLOW"
    assert str(caught.value.fields["target"]) == "main.shop.t"
    assert registry.flows == []


def test_two_expectations_of_one_name_are_refused(registry: Registry) -> None:
    """Counts are stored by name."""
    with pytest.raises(UserError) as caught:

        @dp.expect("a", "x > 1")
        @dp.table
        @dp.expect("a", "x > 2")
        def orders() -> Any:
            return None

    assert (caught.value.condition, caught.value.fields["name"]) == ("DUPLICATE_EXPECTATION", "a")
    assert len(registry.datasets) == 1


@pytest.mark.parametrize(
    ("argument", "condition"),
    [({"a": 1}, "INVALID_ARGUMENT.TYPE"), ({"a": " "}, "INVALID_ARGUMENT.VALUE"), (["a"], "INVALID_ARGUMENT.TYPE")],
)
def test_wrong_conditions_are_refused(registry: Registry, argument: Any, condition: str) -> None:
    """A condition is SQL text or a Column, under a name."""
    with pytest.raises(UserError) as caught:
        dp.expect_all(argument)
    assert caught.value.condition == condition
    assert registry.waiting_expectations == []
