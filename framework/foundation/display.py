"""How a value shows in a notebook or at a prompt, without the value knowing what draws it.

Graphs, plans and results lie below the room that draws them. They inherit `Displayed`, and that room
registers with `html_of` and `text_of` how each type of value shows.
"""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def html_of(value: object) -> str | None:
    """The value as HTML, or None when nothing was registered for its type."""
    del value
    return None


@singledispatch
def text_of(value: object) -> str:
    """The value as lines of text; its type's name when nothing was registered for it."""
    return f"<{type(value).__name__}>"


class Displayed:
    """A value that shows as HTML in a notebook and as text at a prompt, once something has registered how.

    A dataclass that inherits it says `repr=False`.
    """

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """What notebooks call; None makes them fall back to the value's text."""
        return html_of(self)

    def __repr__(self) -> str:
        return text_of(self)
