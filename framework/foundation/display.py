"""How a value shows in a notebook, without the value knowing what draws it.

Plans and results lie below the room that draws HTML. They inherit `ShowsAsHtml`, and that room
registers with `html_of` how each type of value is drawn.
"""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def html_of(value: object) -> str | None:
    """The value as HTML, or None when nothing was registered for its type."""
    del value
    return None


class ShowsAsHtml:
    """A value that notebooks show as HTML once something has registered how."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """What notebooks call; None makes them fall back to the value's text."""
        return html_of(self)
