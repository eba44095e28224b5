"""Settings and options of a Java program in files of this user, because others see the arguments of any process."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from framework.foundation.files.private_files import write_private_file

_ESCAPED = re.compile(r"[\\\s:=#!]")
_CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def option_file(folder: Path, options: Sequence[str]) -> tuple[str, ...]:
    """Write options of Java to a file, and return the argument by which Java reads them; () for no options.

    Args:
        folder: a folder that only this user can open; the file is needed until Java runs.
        options: the options.
    """
    if not options:
        return ()
    path = folder / "options"
    write_private_file(path, "".join(f'"{_quoted(option)}"\n' for option in options))
    return (f"@{path}",)


def properties_file(folder: Path, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Write settings of Spark to a file, and return the arguments by which spark-submit reads them before its defaults.

    Args:
        folder: a folder that only this user can open; the file is needed until Spark runs.
        settings: the settings.
    """
    path = folder / "settings"
    write_private_file(path, "".join(f"{_property(key)}={_property(value)}\n" for key, value in settings.items()))
    return ("--properties-file", str(path), "--load-spark-defaults")


def _quoted(option: str) -> str:
    """Return an option as it is inside the double quotes of a file of Java's arguments."""
    return "".join(_CONTROL.get(letter, letter) for letter in option.replace("\\", "\\\\").replace('"', '\\"'))


def _property(text: str) -> str:
    """Return a text as Java's properties have keys and values."""
    return _ESCAPED.sub(lambda match: _CONTROL.get(match[0], f"\\{match[0]}"), text)
