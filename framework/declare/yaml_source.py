"""YAML with source locations: safe loading, and the line of each key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.wording import exception_text


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class YamlDocument:
    """A mapping at the top of a YAML file, with the line of each of its keys.

    Args:
        values: plain Python values.
        lines: path of keys -> line, from 1; entries of lists have their index as key.
    """

    path: Path
    values: dict[str, Any]
    lines: dict[tuple[str | int, ...], int]

    def location(self, *keys: str | int) -> SourceLocation:
        """The location of a key, else of the nearest enclosing key."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return SourceLocation(file=str(self.path), line=self.lines.get(keys, 1))


def read_yaml(path: Path) -> YamlDocument:
    """Read the document of a file.

    Raises:
        UserError: PIPELINE_SPEC_FILE_DOES_NOT_EXIST, or PIPELINE_SPEC_INVALID_YAML with the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError("PIPELINE_SPEC_FILE_DOES_NOT_EXIST", path=path, cause=error.strerror) from error
    except ValueError as error:  # bytes that are not UTF-8, or a path that is invalid on any file system
        cause = exception_text(error)
        raise UserError("PIPELINE_SPEC_FILE_DOES_NOT_EXIST", path=repr(str(path)), cause=cause) from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # a value such as the date 2013-02-30 is a ValueError
        mark = getattr(error, "problem_mark", None)
        location = SourceLocation(file=str(path), line=mark.line + 1 if mark is not None else 1)
        raise UserError(
            "PIPELINE_SPEC_INVALID_YAML", location=location, path=path, cause=getattr(error, "problem", None) or error
        ) from error
    if not isinstance(values, dict):
        location = SourceLocation(file=str(path), line=1)
        raise UserError(
            "PIPELINE_SPEC_INVALID_YAML", location=location, path=path, cause="the top level is not a mapping"
        )
    lines: dict[tuple[str | int, ...], int] = {}
    _note_lines(node, (), lines)
    return YamlDocument(path=path, values=values, lines=lines)


def _note_lines(node: yaml.Node | None, keys: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*keys, str(key.value))
            lines[inner] = key.start_mark.line + 1
            _note_lines(value, inner, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[(*keys, index)] = value.start_mark.line + 1
            _note_lines(value, (*keys, index), lines)
