"""A stream of text that hides the secrets which this process knows."""

from __future__ import annotations

from typing import Any, TextIO, cast

from framework.foundation.secrets.known_secrets import hide_known


class MaskedStream:
    """A stream that hides known secrets in each text that is written; all else is the inner stream's.

    A secret that a program writes in two parts is not found.

    Args:
        inner: the stream that gets the texts.
    """

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner

    def write(self, text: str) -> int:
        """Write a text; return its length, as given."""
        self._inner.write(hide_known(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def masked(stream: TextIO) -> TextIO:
    """Return a stream that hides known secrets, unless this one does."""
    return stream if isinstance(stream, MaskedStream) else cast("TextIO", MaskedStream(stream))
