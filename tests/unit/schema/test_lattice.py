"""The lattice of types is a partial order wherever it is used, and the common type of two types is their least one."""

from __future__ import annotations

from itertools import product

import pytest

from framework.schema.lattice import (
    AUTO_CDC,
    COMPARISON,
    FILES,
    GROWN_TABLE,
    KNOWN_FILES,
    KNOWN_TEXT_FILES,
    SAME_TYPES,
    TABLE,
    Widening,
)

NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
DECIMALS = ("decimal(3,0)", "decimal(5,2)", "decimal(10,0)", "decimal(20,4)", "decimal(38,0)", "decimal(38,18)")
OTHERS = ("void", "boolean", "string", "string collate UTF8_LCASE", "binary", "date", "timestamp", "timestamp_ntz",
          "variant")  # fmt: skip
PARTS = {
    "table": TABLE, "grown table": GROWN_TABLE, "same types": SAME_TYPES, "known files": KNOWN_FILES,
    "known text files": KNOWN_TEXT_FILES, "files": FILES, "AUTO CDC": AUTO_CDC, "comparison": COMPARISON,
}  # fmt: skip


def types(part: Widening) -> tuple[str, ...]:
    """The types of a part; where all texts are one, that one."""
    return tuple(kind for kind in (*NUMBERS, *DECIMALS, *OTHERS) if not (part.one_text and "collate" in kind))


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_each_part_of_the_lattice_is_a_partial_order(part: Widening) -> None:
    """A type is below itself; of two types at most one is below the other; and what is above the above is above."""
    below = {(one, other) for one, other in product(types(part), repeat=2) if part.common(one, other) == other}
    assert {(kind, kind) for kind in types(part)} <= below
    assert {(one, other) for one, other in below if (other, one) in below} == {(kind, kind) for kind in types(part)}
    assert {(one, third) for one, other in below for also, third in below if other == also} == below


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_columns_wider_types_are_a_partial_order(part: Widening) -> None:
    """A column may also get there in two steps; a type that a column keeps has no wider one."""
    below = {(one, other) for one, other in product(types(part), repeat=2) if part.wider(one, other) == other}
    assert {(one, third) for one, other in below for also, third in below if other == also} == below
    assert [pair for pair in below if pair[0] in part.kept and pair[0] != pair[1]] == []


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_the_common_type_is_the_least_one_above_both(part: Widening) -> None:
    """It depends on no order of types, where each step has one: AUTO CDC has none for decimals that it would round."""
    for one, other in product(types(part), repeat=2):
        common = part.common(one, other)
        assert part.common(other, one) == common
        if common is None:
            continue
        assert [part.common(kind, common) for kind in (one, other)] == [common, common]
        for third in types(part):
            is_above = all(part.common(kind, third) == third for kind in (one, other))
            assert not is_above or part.common(common, third) == third, (one, other, third)
            first, after = part.common(common, third), part.common(other, third)
            last = None if after is None else part.common(one, after)
            assert first == last or None in (first, last), (one, other, third)


def test_what_differs_between_places_is_meant() -> None:
    """A line for each pair of types that one place widens, and another one does not."""
    pairs = {(one, other) for one, other in product((*NUMBERS, *OTHERS), repeat=2) if one < other and "void" != other}
    shown = {
        f"{one} and {other}": tuple(part.common(one, other) for part in (TABLE, FILES, AUTO_CDC, COMPARISON))
        for one, other in sorted(pairs)
    }
    differing = {pair: found for pair, found in shown.items() if {*found} - {"string", None} and None in found}
    assert differing == {
        "bigint and double": (None, "string", "double", None),
        "bigint and float": (None, "string", "double", None),
        "date and timestamp": (None, "timestamp", "timestamp", None),
        "date and timestamp_ntz": ("timestamp_ntz", "string", "timestamp_ntz", None),
        "double and int": ("double", "double", "double", None),
        "double and smallint": ("double", "double", "double", None),
        "double and tinyint": ("double", "double", "double", None),
        "float and int": ("double", "double", "double", None),
        "float and smallint": ("double", "double", "double", None),
        "float and tinyint": ("double", "double", "double", None),
    }
    wholes = [
        (part.common("tinyint", "decimal(5,2)"), part.common("bigint", "decimal(5,2)")) for part in PARTS.values()
    ]
    assert dict(zip(PARTS, wholes, strict=True)) == {
        "table": ("decimal(12,2)", "decimal(22,2)"),
        "grown table": ("decimal(12,2)", "decimal(22,2)"),
        "same types": (None, None),
        "known files": ("decimal(12,2)", "decimal(22,2)"),
        "known text files": ("decimal(12,2)", "decimal(22,2)"),
        "files": ("decimal(5,2)", "decimal(22,2)"),
        "AUTO CDC": ("decimal(5,2)", "decimal(22,2)"),
        "comparison": ("decimal(5,2)", "decimal(21,2)"),
    }
