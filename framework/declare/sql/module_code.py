"""Python code that is written line by line: each part has the line number of its origin in the file."""

from __future__ import annotations


class ModuleCode:
    """The code of a module so far."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._line = 1

    def write(self, line: int, code: str) -> None:
        """Add code on a line, or on the last line if that is further down, where a line break must be allowed.

        Args:
            line: the line of the file.
            code: code of one or more lines.
        """
        self.append("\n" * (line - self._line) + code)
        self._line = max(line, self._line) + code.count("\n")

    def append(self, code: str) -> None:
        """Add code on the last line; its string literals must not span lines."""
        self._parts.append(code)

    def text(self) -> str:
        """Return the code."""
        return "".join(self._parts)
