"""A text stream that hides the secrets known to this process."""

from __future__ import annotations

from typing import Any, TextIO, cast

from framework.foundation.secrets.known_secrets import hide_known


class MaskedStream:
    """A stream that hides known secrets in each written text, and otherwise behaves as the inner stream.

    A secret that a program writes in two parts is not detected.

    Args:
        inner: the stream that receives the masked texts.
    """

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner

    def write(self, text: str) -> int:
        """Write a text, and return the length of the original text."""
        self._inner.write(hide_known(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def masked(stream: TextIO) -> TextIO:
    """Return a masked stream; a stream that is already masked is returned unchanged."""
    return stream if isinstance(stream, MaskedStream) else cast("TextIO", MaskedStream(stream))
