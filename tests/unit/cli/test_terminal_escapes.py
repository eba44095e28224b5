"""Names, messages and data can't control the terminal on which they are shown."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from xml.etree import ElementTree as ET

import click
import pytest

from framework.cli.command import styled
from framework.cli.live_progress import LiveProgress
from framework.cli.output import Output
from framework.cli.progress import PlainProgress
from framework.diagrams.dot import dot
from framework.diagrams.notebook import board_text
from framework.diagrams.picture import Node, NodeKind, Picture
from framework.diagrams.svg import svg
from framework.foundation.display import at_prompt
from framework.foundation.errors import OperationError, RemoteError, UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName, split_parts
from framework.plan.steps import Plan, SkipStep
from framework.testing.manual_clock import ManualClock
from framework.views.flow_board import FlowBoard
from framework.views.rows import RowsView
from framework.views.table import Table

HOSTILE = "\x1b]0;title\x07\x1b[2J\x1b[8m\x9b31m\u202eright\u2066\u200b\ufeff\x00\r\x7f\x0b\u2028."
SHOWN = r"\x1b]0;title\x07\x1b[2J\x1b[8m\x9b31m\u202eright\u2066\u200b\ufeff\x00\r\x7f\x0b\u2028."


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_an_error_is_rendered_with_escapes_wherever_its_text_comes_from() -> None:
    """Fields, the file of the location and the text of another process are shown; lines of a text stay lines."""
    here = SourceLocation(file=f"{HOSTILE}py", line=1)
    error = OperationError("SYSTEM_CALL_FAILED", location=here, cause=f"{HOSTILE}\n\tnext\r\nlast")
    assert f"{SHOWN}\n\tnext\nlast" in error.what
    assert f"at {SHOWN}py:1" in str(error)
    remote = RemoteError("QUERY_FAILED", what=HOSTILE, remedy=HOSTILE)
    assert (remote.what, remote.remedy) == (SHOWN, SHOWN)
    assert SHOWN in styled(f"[BUNDLE] {HOSTILE}")


def test_texts_keep_the_styles_of_the_commands_only() -> None:
    """A title in bold stays bold; what conceals text or clears the screen is shown."""
    stream = Terminal()
    Output(stream=stream).text(f"{click.style('title', bold=True)} {HOSTILE}")
    assert stream.getvalue() == f"\x1b[1mtitle\x1b[0m {SHOWN}\n"


def test_progress_shows_names_and_messages_with_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of progress print a sentence as one line without control characters."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    plain, live = io.StringIO(), Terminal()
    PlainProgress(plain, title="shop", clock=ManualClock()).say(HOSTILE)
    LiveProgress(live, title="shop", clock=ManualClock()).say(HOSTILE)
    assert plain.getvalue().partition("  ")[2] == f"{SHOWN}\n"
    assert live.getvalue() == f"{SHOWN}\n"


def test_values_at_a_prompt_have_escapes() -> None:
    """A plan with the name of a file in its reason, and a flow board, can't control the terminal of IPython."""
    name = QualifiedName(catalog="main", schema="shop", table="orders")
    plan = Plan(pipeline="shop", steps=(SkipStep(dataset=name, flow=None, reason=HOSTILE),))
    assert f"skip  orders  {SHOWN}" in repr(plan)
    board = FlowBoard(update_id="u-1", state=HOSTILE)
    assert at_prompt(board_text(board, ManualClock().now())) == f"{SHOWN} (update u-1)"


@pytest.mark.parametrize(
    "show",
    [
        lambda output, value: output.rows(RowsView.of([value], [[value]])),
        lambda output, value: output.json([{value: value}]),
        lambda output, value: output.json_line([{value: value}]),
        lambda output, value: output.table([value], [{value: value}]),
        lambda output, value: output.result(Table.of(["x"], []), [{value: value}]),
    ],
)
def test_json_is_exact_and_printable(show: Callable[[Output, str], None]) -> None:
    """What a terminal may interpret is an escape of JSON, also an unpaired surrogate; values are exact."""
    value, stream = f"{HOSTILE}é漢👨‍👩‍👧\ud800", Terminal()
    show(Output(stream=stream, as_json=True), value)
    text = stream.getvalue()
    assert json.loads(text) == [{value: value}]
    assert text.replace("\n", "").isprintable()
    assert "é漢" in text


def test_drawings_have_escapes_and_are_xml() -> None:
    """XML has no control characters, so a name with one made an image that no program opens."""
    node = Node(key="k", kind=NodeKind.EXTERNAL, title="t", full_name=f"<{HOSTILE}")
    picture = Picture(title=HOSTILE, nodes=(node,), edges=())
    root = ET.fromstring(svg(picture))  # noqa: S314 - our own drawing
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [f"Dataflow of {SHOWN}", f"<{SHOWN}"]
    assert dot(picture).replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "letter",
    [
        "\x1b", "\x7f", "\x9b", "\u202e", "\u2066", "\u200b", "\u2028", "\ufeff", "\xad", "\u061c", "\u2063", "\u206d",
        "\u3164", "\uffa0", "\ufff9", "\U000e0041",
    ],
)  # fmt: skip
def test_a_name_has_no_invisible_characters(letter: str) -> None:
    """A table whose name reads like that of another one, or controls a terminal, is refused."""
    with pytest.raises(UserError) as refused:
        split_parts(f"or{letter}ders")
    assert refused.value.condition == "INVALID_NAME"
    assert str(refused.value).replace("\n", "").isprintable()
