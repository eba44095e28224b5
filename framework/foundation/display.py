"""Display of values in notebooks and at prompts, independent of the code that renders them.

Graphs, plans and results belong to lower layers than `diagrams`. They inherit `Displayed`, and `diagrams` registers a
renderer for each type of value with `html_of` and `text_of`.
"""

from __future__ import annotations

from functools import singledispatch

from framework.foundation.secrets.known_secrets import hide_known
from framework.foundation.wording import printable_lines


@singledispatch
def html_of(value: object) -> str | None:
    """Return the value as HTML; None if no renderer is registered for its type."""
    del value
    return None


@singledispatch
def text_of(value: object) -> str:
    """Return the value as lines of text, or the name of its type if no renderer is registered."""
    return f"<{type(value).__name__}>"


class Displayed:
    """A value that is displayed as HTML in a notebook and as text at a prompt if a renderer is registered.

    A dataclass that inherits it needs `repr=False`.
    """

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """Return the HTML for notebooks; if it is None, notebooks use the value's text."""
        return html_of(self)

    def __repr__(self) -> str:
        return at_prompt(text_of(self))


def at_prompt(text: str) -> str:
    """Return a text for display at a prompt: known secrets are hidden, and control characters are escaped."""
    return printable_lines(hide_known(text))
