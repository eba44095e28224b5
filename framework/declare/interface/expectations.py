"""Expectations: `@expect` and its five siblings, stacked above or below a dataset's decorator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from framework.declare.interface.call import Call, declaration
from framework.declare.interface.expressions import row_expression
from framework.declare.interface.queries import Declared, check_query, declared_of, marked
from framework.declare.registry import QueryFunction, active_registry
from framework.declare.specs import DatasetSpec, ExpectationSpec, ViolationAction
from framework.declare.sql_tokens import closing, tokens
from framework.foundation.errors import GraphErrors, UserError

if TYPE_CHECKING:
    from pyspark.sql import Column

Decorator = Callable[[QueryFunction], QueryFunction]
Conditions = Mapping[str, "str | Column"]


@declaration
def expect(name: str, inv: str | Column) -> Decorator:
    """Keep rows that violate the condition, and count them.

    Args:
        name: the expectation's name in the event log.
        inv: a boolean SQL expression or a Column; a row violates it if it is false or NULL. `UNIQUE (a, b)` is violated
            by rows with the same values of these expressions as another row of the table, unless one of them is NULL.
    """
    return _expecting(Call.of("expect"), {name: inv}, ViolationAction.WARN)


@declaration
def expect_or_drop(name: str, inv: str | Column) -> Decorator:
    """Drop rows that violate the condition, and count them; arguments as for `expect`."""
    return _expecting(Call.of("expect_or_drop"), {name: inv}, ViolationAction.DROP)


@declaration
def expect_or_fail(name: str, inv: str | Column) -> Decorator:
    """Fail the flow if a row violates the condition, and write nothing of its batch; arguments as for `expect`."""
    return _expecting(Call.of("expect_or_fail"), {name: inv}, ViolationAction.FAIL)


@declaration
def expect_all(expectations: Conditions) -> Decorator:
    """Add several `expect` conditions, by name."""
    return _expecting(Call.of("expect_all"), expectations, ViolationAction.WARN)


@declaration
def expect_all_or_drop(expectations: Conditions) -> Decorator:
    """Add several `expect_or_drop` conditions, by name."""
    return _expecting(Call.of("expect_all_or_drop"), expectations, ViolationAction.DROP)


@declaration
def expect_all_or_fail(expectations: Conditions) -> Decorator:
    """Add several `expect_or_fail` conditions, by name."""
    return _expecting(Call.of("expect_all_or_fail"), expectations, ViolationAction.FAIL)


def read_expectations(
    call: Call, *, expect_all: object, expect_all_or_drop: object, expect_all_or_fail: object
) -> tuple[ExpectationSpec, ...]:
    """Return the expectations in the three arguments of `create_streaming_table`.

    Raises:
        UserError: INVALID_ARGUMENT.* for an invalid expectation, DUPLICATE_EXPECTATION for a repeated name.
    """
    groups = (
        _specs(call, "expect_all", expect_all, ViolationAction.WARN),
        _specs(call, "expect_all_or_drop", expect_all_or_drop, ViolationAction.DROP),
        _specs(call, "expect_all_or_fail", expect_all_or_fail, ViolationAction.FAIL),
    )
    found: tuple[ExpectationSpec, ...] = ()
    for group in groups:
        found = _joined(found, group)
    return found


def _expecting(call: Call, conditions: object, action: ViolationAction) -> Decorator:
    """Return the decorator that adds expectations to the function's dataset, declared below or above it."""
    specs = _specs(call, "expectations", conditions, action)

    def decorate(function: QueryFunction) -> QueryFunction:
        check_query(call, function)
        declared = declared_of(function)
        dataset = declared.dataset and _extend(declared.dataset, specs)
        if dataset is not None:
            return marked(function, dataclasses.replace(declared, dataset=dataset))
        active_registry().waiting_expectations.extend(specs)
        return marked(function, Declared(expectations=_joined(specs, declared.expectations)))

    return decorate


def _extend(dataset: DatasetSpec, specs: tuple[ExpectationSpec, ...]) -> DatasetSpec | None:
    """Replace a registered dataset with one that has more expectations; return None if it is not in the registry."""
    datasets = active_registry().datasets
    position = next((index for index, known in enumerate(datasets) if known is dataset), None)
    if position is None:
        return None
    datasets[position] = dataclasses.replace(dataset, expectations=_joined(specs, dataset.expectations))
    return datasets[position]


def _specs(call: Call, argument: str, conditions: object, action: ViolationAction) -> tuple[ExpectationSpec, ...]:
    if conditions is None:
        return ()
    if not isinstance(conditions, Mapping):
        call.wrong_type(argument, conditions, "a dict of expectation names and conditions")
    found: list[ExpectationSpec] = []
    faults: list[UserError] = []
    for name, condition in conditions.items():
        try:
            expression = row_expression(call, f"condition of {name}", condition)
            found.append(
                ExpectationSpec(
                    name=call.text("name", name),
                    condition=expression,
                    action=action,
                    location=call.location,
                    unique=_unique_keys(expression),
                )
            )
        except UserError as error:
            faults.append(error)
    if faults:
        raise faults[0] if len(faults) == 1 else GraphErrors(faults)
    return tuple(found)


def _unique_keys(condition: str) -> tuple[str, ...] | None:
    """Return the expressions of `UNIQUE (…)`, which may be in parentheses; None for any other condition.

    Examples:
        >>> _unique_keys("(unique(id, lower(`e mail`)))")
        ('id', 'lower(`e mail`)')
        >>> _unique_keys("is_unique(id)")
    """
    found = [*tokens(condition)]
    while found and found[0].is_symbol("(") and closing(found, 0) == len(found) - 1:
        found = found[1:-1]
    if len(found) < 3 or not found[0].is_word("UNIQUE") or not found[1].is_symbol("("):
        return None
    if closing(found, 1) != len(found) - 1:
        return None
    keys, depth, start = list[str](), 0, found[1].end
    for token in found[2:]:
        if depth == 0 and token.text in {",", ")"}:
            keys.append(condition[start : token.start].strip())
            start = token.end
        depth += token.is_symbol("(") - token.is_symbol(")")
    return tuple(key for key in keys if key)


def _joined(first: tuple[ExpectationSpec, ...], second: tuple[ExpectationSpec, ...]) -> tuple[ExpectationSpec, ...]:
    """Return both, in order from top to bottom; names are unique, because violations are counted by name."""
    names = {spec.name for spec in first}
    repeated = next((spec for spec in second if spec.name in names), None)
    if repeated is not None:
        call = Call(function="expect", location=first[0].location)
        raise call.fault("DUPLICATE_EXPECTATION", name=repeated.name, other=repeated.location)
    return first + second
