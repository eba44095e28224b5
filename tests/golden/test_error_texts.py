"""Every text of the error catalogue, rendered as users see it."""

from __future__ import annotations

import string
from collections.abc import Callable

import pytest

from framework.foundation.errors import GraphErrors, InternalError, OperationError, UserError
from framework.foundation.locations import SourceLocation
from tests.support.conditions import EVERY_CONDITION


class Field(str):
    """Displays the name of a field instead of its value, in every format."""

    __slots__ = ()

    def __format__(self, _: str) -> str:
        """The name in angle brackets."""
        return "<" + str(self) + ">"

    def __repr__(self) -> str:
        """The name in quotes, as a value would be."""
        return "'<" + str(self) + ">'"


def fields_of(condition: str) -> dict[str, object]:
    """The fields that the texts of a condition need."""
    texts = "".join(EVERY_CONDITION[condition])
    return {name.partition(".")[0]: Field(name) for _, name, _, _ in string.Formatter().parse(texts) if name}


def test_every_condition_has_the_text_that_is_written_here(golden: Callable[[str, str], None]) -> None:
    """Every change of an error text is a change of the golden file."""
    location = SourceLocation(file="transformations/flights.py", line=12)
    errors = [UserError(condition, location=location, **fields_of(condition)) for condition in sorted(EVERY_CONDITION)]
    golden("errors.txt", "\n\n".join(error.render() for error in errors))


@pytest.mark.parametrize("condition", sorted(EVERY_CONDITION))
def test_a_text_is_made_of_sentences(condition: str) -> None:
    """What happened and what to do are sentences, unless they end with a message of a source."""
    what, remedy = EVERY_CONDITION[condition]
    for text in (what, remedy):
        assert text == text.strip()
        assert not text or text[0].isupper() or text[0] in "`{@_"
        assert not text or text[-1] in ".}?!)"


def test_all_faults_of_a_graph_are_one_text_in_order_of_their_lines(golden: Callable[[str, str], None]) -> None:
    """The text starts with the count; faults follow in order of file and line."""
    errors = GraphErrors(
        [
            UserError("INVALID_NAME", location=SourceLocation(file="b.py", line=3), name="a b"),
            UserError("INVALID_NAME", location=SourceLocation(file="a.py", line=40), name="a b"),
            UserError("INVALID_NAME", location=SourceLocation(file="a.py", line=5), name="a b"),
        ]
    )
    golden("graph_errors.txt", errors.render())


def test_exit_codes_follow_whose_fault_it_is() -> None:
    """The user's faults are 2; those of operations and our own are 1."""
    kinds = (UserError, OperationError, InternalError)
    assert [kind("INVALID_NAME", name="x").exit_code for kind in kinds] == [2, 1, 1]
