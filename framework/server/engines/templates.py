"""Command lines and Jobs with places for the engine: `{{argv}}`, `{{arguments}}`, `{{update_id}}`, `{{pipeline}}`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_PLACE = re.compile(r"\{\{\s*(\w*)\s*\}\}")
_LISTS = ("argv", "arguments")
PLACES = (*_LISTS, "update_id", "pipeline")
_PROGRAM_WORDS = 3
"""`python -m framework`: the words before the arguments, which another machine has elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What replaces the places of a template.

    Args:
        argv: the command line of the engine; `{{arguments}}` is without its program.
    """

    argv: tuple[str, ...]
    update_id: str
    pipeline: str

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words of a place."""
        words = {"argv": self.argv, "arguments": self.argv[_PROGRAM_WORDS:], "update_id": (self.update_id,)}
        return words.get(name, (self.pipeline,))


def filled(template: Any, filling: Filling) -> Any:
    """Return a template with its places replaced.

    A list item that is one place becomes as many items as the place has words. Inside of another text the words of a
    command line are quoted for a shell, so that no value of a request is a command there.
    """
    if isinstance(template, Mapping):
        return {name: filled(each, filling) for name, each in template.items()}
    if isinstance(template, list | tuple):
        return [item for each in template for item in _items(each, filling)]
    return _text(template, filling) if isinstance(template, str) else template


def places(template: Any) -> Iterator[str]:
    """Yield the names of all places of a template."""
    if isinstance(template, Mapping):
        for each in template.values():
            yield from places(each)
    elif isinstance(template, list | tuple):
        for each in template:
            yield from places(each)
    elif isinstance(template, str):
        yield from (found[1] for found in _PLACE.finditer(template))


def problem_of(template: Any) -> str | None:
    """Return what is wrong with the places of a template; None if it starts the engine of an update."""
    found = tuple(places(template))
    unknown = next((each for each in found if each not in PLACES), None)
    known = ", ".join(f"`{{{{{each}}}}}`" for each in PLACES)
    if unknown is not None:
        return f"`{{{{{unknown}}}}}` is not one of {known}."
    if not set(found) & set(_LISTS):
        return "it has neither `{{argv}}` nor `{{arguments}}`, so no update would start."
    return None


def is_bare(text: str) -> bool:
    """Return whether a text is one place with the words of a command line, which are not quoted."""
    found = _PLACE.fullmatch(text.strip())
    return found is not None and found[1] in _LISTS


def _items(item: Any, filling: Filling) -> tuple[Any, ...]:
    if isinstance(item, str) and is_bare(item):
        found = _PLACE.fullmatch(item.strip())
        assert found is not None
        return filling.words(found[1])
    return (filled(item, filling),)


def _text(text: str, filling: Filling) -> str:
    def words(found: re.Match[str]) -> str:
        some = filling.words(found[1])
        return shlex.join(some) if found[1] in _LISTS else some[0]

    return _PLACE.sub(words, text)
