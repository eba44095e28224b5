"""Any order of arrival: the rows of a source in other orders and batches must end in the same table."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from framework.foundation.errors import SluiceError, UserError
from framework.foundation.names import QualifiedName
from framework.foundation.nearest import nearest_hint
from framework.foundation.wording import counted
from framework.sandbox.differences.comparison import compare_rows
from framework.sandbox.differences.difference_text import DifferenceFormat
from framework.sandbox.expectations.examined import Examined
from framework.sandbox.expectations.tables import TypedRows, keys_of, table_rows
from framework.sandbox.given_source import Batch, GivenSource
from framework.sandbox.values.typed_values import as_mapping

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_MOST_BATCHES = 3
_MOST_TRIES = 10
_LONGEST_ITEM = 100
_Order = tuple[tuple[int, ...], ...]
"""The numbers of the items of each batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """What arrives as a whole: a row, or a file whose content is given.

    Args:
        value: the row as the test wrote it; the batch of a file.
        schema: the columns, as the test gave them.
    """

    value: Any
    schema: StructType | None


def check_any_order(
    sandbox: Examined, dataset: str, *, source: str, permutations: int, seed: int, text: DifferenceFormat
) -> None:
    """Check that the order in which the rows of a source arrive does not change a table.

    Raises:
        AssertionError: an order ends in another table, or in an error; its text has the order and the difference.
        UserError: TEST_SOURCE_NOT_GIVEN, TEST_SOURCE_TOO_SMALL.
    """
    __tracebackhide__ = True
    name = sandbox.dataset(dataset)
    given = _given(sandbox, source)
    items = list(items_of(given.batches))
    if len(items) < 2:
        raise UserError("TEST_SOURCE_TOO_SMALL", source=source, count=counted(len(items), "row"))
    first: _Order = (tuple(range(len(items))),)
    expected = _table_after(sandbox, name, given, items, first)
    for number, order in enumerate(drawn_orders(len(items), permutations, seed), start=1):
        where = f"order {number} of {permutations}, seed={seed}"
        try:
            found = _table_after(sandbox, name, given, items, order)
        except SluiceError as error:
            failure = f"{dataset} can't be updated after {where}:\n{_order_text(order, items)}\n\n{error.render()}"
            raise AssertionError(failure) from error
        difference = compare_rows(expected.rows, found.rows, expected.schema, keys=keys_of(sandbox, name))
        if difference is not None:
            shown = text.text(f"{dataset} depends on the order of {source}: after {where}, it", difference)
            failure = f"{shown}\n\n  Expected: the table after all rows in the order of the test, in one batch.\n"
            raise AssertionError(failure + _order_text(order, items))


def _given(sandbox: Examined, source: str) -> GivenSource:
    sources = [each for each in sandbox.inputs.sources if not each.real]
    same = [each for each in sources if each.written == source]
    near = [each for each in sources if each.taken is not None and each.taken.nearness(source)]
    found = same or near
    if len(found) != 1:
        raise UserError(
            "TEST_SOURCE_NOT_GIVEN", source=source, hint=nearest_hint(source, [each.written for each in sources])
        )
    return found[0]


def items_of(batches: Sequence[Batch]) -> Iterator[_Item]:
    """Yield the rows of batches; a file with given content stays whole.

    Rows by position without columns have those of the batches before them.
    """
    known: StructType | None = None
    for batch in batches:
        known = batch.schema or known
        if batch.content is not None or batch.file is not None:
            yield _Item(value=batch, schema=None)
        elif isinstance(batch.value, list | tuple):
            for row in batch.value:
                is_named = isinstance(as_mapping(row), Mapping)
                yield _Item(value=row, schema=batch.schema if is_named else known)
        else:
            rows = batch.rows()
            for row in rows.values:
                value = row if rows.columns is None else dict(zip(rows.columns, row, strict=True))
                yield _Item(value=value, schema=batch.schema or rows.known)


def drawn_orders(count: int, permutations: int, seed: int) -> Iterator[_Order]:
    """Yield different orders in two or three batches; fewer if there are not so many."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    seen = set[_Order]()
    for _ in range(permutations):
        for _ in range(_MOST_TRIES):
            order = _drawn(chance, count)
            if order not in seen:
                seen.add(order)
                yield order
                break


def _drawn(chance: random.Random, count: int) -> _Order:
    numbers = chance.sample(range(count), count)
    batches = chance.choice([2, 2, 2, _MOST_BATCHES]) if count >= _MOST_BATCHES else 2
    cuts = [0, *sorted(chance.sample(range(1, count), batches - 1)), count]
    return tuple(tuple(numbers[begin:end]) for begin, end in pairwise(cuts))


def _table_after(
    sandbox: Examined, dataset: QualifiedName, permuted: GivenSource, items: Sequence[_Item], order: _Order
) -> TypedRows:
    """Return the table of a twin of the sandbox after an update for each batch."""
    twin = sandbox.twin()
    try:
        if sandbox.clock.millis is not None:
            twin.clock.at(sandbox.clock.now())
        for source in sandbox.inputs.sources:
            if source is not permuted:
                _give(twin, source.written, None if source.real else source.batches)
        for numbers in order:
            batches = list(_batches([items[number] for number in numbers]))
            _give(twin, permuted.written, batches)
            twin.update(str(dataset))
        return table_rows(twin, dataset)
    finally:
        twin.close()


def _give(twin: Examined, source: str, batches: Sequence[Batch] | None) -> None:
    """Give an input, or add batches to it; None for the real one."""
    if batches is None:
        twin.inputs.give(source, None, now=0)
        return
    for batch in batches:
        twin.inputs.arrive(source, batch, now=batch.seconds)


def _batches(items: Sequence[_Item]) -> Iterator[Batch]:
    """Yield the batches of items: rows of the same columns together, and each file by itself."""
    rows: list[Any] = []
    schema: StructType | None = None
    for item in items:
        is_file = isinstance(item.value, Batch)
        if rows and (is_file or item.schema != schema):
            yield Batch(value=rows, schema=schema)
            rows = []
        if is_file:
            yield replace(item.value, seconds=0.0)
        else:
            rows, schema = [*rows, item.value], item.schema
    if rows:
        yield Batch(value=rows, schema=schema)


def _order_text(order: _Order, items: Sequence[_Item]) -> str:
    """Return the order as text: the rows of each batch, one a line."""
    lines = []
    for number, batch in enumerate(order, start=1):
        lines.append(f"  Batch {number}:")
        lines += [f"    {_item_text(items[each])}" for each in batch]
    return "\n".join(lines)


def _item_text(item: _Item) -> str:
    value = item.value
    file = f"the file {value.file or 'without a name'}" if isinstance(value, Batch) else None
    text = file or repr(value)
    return text if len(text) <= _LONGEST_ITEM else f"{text[: _LONGEST_ITEM - 1]}…"
