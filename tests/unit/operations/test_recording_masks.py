"""Masks of recorded values keep what tests depend on."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from framework.operations.recording.masks import Masks

VALUES = st.one_of(
    st.text(max_size=12), st.integers(-(2**31), 2**31 - 1), st.binary(max_size=8),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**6), max_value=10**6),
    st.dates(min_value=date(1990, 1, 1)), st.datetimes(min_value=datetime(1990, 1, 1)),  # noqa: DTZ001 - of no zone
)  # fmt: skip


@given(value=VALUES)
def test_a_mask_has_the_type_and_the_length_of_its_value(value: object) -> None:
    """The same value has the same mask everywhere; a number stays in the range of its type."""
    masks = Masks((), b"salt")
    found = masks.value(value)
    assert (type(found), masks.value([value, {"a": value}])) == (type(value), [found, {"a": found}])
    if isinstance(value, str | bytes):
        assert len(found) == len(value)
    if isinstance(value, int):
        assert len(str(found)) == len(str(value))
        assert -(2**31) <= found < 2**31
    if isinstance(value, Decimal):
        assert found.as_tuple().exponent == value.as_tuple().exponent


def test_different_keys_have_different_masks() -> None:
    """A thousand keys of four digits still join, and no two become one."""
    masks = Masks((), b"salt")
    assert len({masks.value(number) for number in range(1000, 2000)}) == 1000
    assert len({masks.value(f"{number}") for number in range(1000, 2000)}) == 1000


def test_only_the_named_columns_of_a_row_are_masked() -> None:
    """NULL stays NULL, and so do the characters by which a query finds parts of a text."""
    masks = Masks({"email"}, b"salt")
    row = masks.row({"id": 1, "Email": "ada@example.com", "name": "Ada"})
    assert (row["id"], row["name"], row["Email"][3], row["Email"][11]) == (1, "Ada", "@", ".")
    assert row["Email"] != "ada@example.com"
    assert masks.row({"email": None}) == {"email": None}


def test_another_salt_gives_other_masks() -> None:
    """Nobody finds a value of one recording by masking guesses in another one."""
    assert Masks((), b"one").value("ada@example.com") != Masks((), b"two").value("ada@example.com")
