"""Python code that is written line by line, each part on the line of the file that it is made of."""

from __future__ import annotations


class ModuleCode:
    """The code of a module so far."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._line = 1

    def write(self, line: int, code: str) -> None:
        """Add code on a line, or on the last one if that is below; breaks of lines must be allowed there.

        Args:
            line: the line of the file.
            code: code of one or more lines.
        """
        self.append("\n" * (line - self._line) + code)
        self._line = max(line, self._line) + code.count("\n")

    def append(self, code: str) -> None:
        """Add code on the last line; its strings are literals of one line."""
        self._parts.append(code)

    def text(self) -> str:
        """Return the code."""
        return "".join(self._parts)
