"""The packages that `%pip install` in notebooks requests: which are installed, and which are missing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from framework.declare.registry import add_note
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

if TYPE_CHECKING:
    from framework.declare.modules.notebook_cells import Cell

_WITH_VALUE = frozenset(
    {"-c", "--constraint", "-e", "--editable", "-f", "--find-links", "-i", "--index-url", "--extra-index-url", "-t"}
    | {"--target", "--proxy", "--trusted-host", "--python-version", "--platform", "--timeout", "--retries", "--log"}
)
_FILES = frozenset({"-r", "--requirement"})
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*(?:[@=<>!~;].*)?")
_OURS = frozenset({"databricks-dlt", "dlt", "databricks-sdk-runtime"})
"""Packages whose modules Sluice provides itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Package:
    """A requested package as written, and its name; the name is None for a URL without one."""

    text: str
    name: str | None
    location: SourceLocation


def look_up_packages(path: Path, cells: Sequence[Cell]) -> Iterator[UserError]:
    """Yield one error for all requested packages that this environment lacks; add a note for the others.

    Args:
        path: the notebook.
        cells: its cells with `%pip`.
    """
    missing = []
    for cell in cells:
        location = SourceLocation(file=str(path), line=cell.line)
        found = [*_asked(path, " ".join(cell.lines), location)]
        missing += [each for each in found if each.name is not None and _installed(each.name) is None]
        if not any(each in missing for each in found):
            installed = ", ".join(_told(each) for each in found) or "nothing to install"
            add_note(UserError("NOTEBOOK_PACKAGES_THERE", location=location, cell=cell.shown, installed=installed))
    if missing:
        packages = " ".join(dict.fromkeys(shlex.quote(each.text) for each in missing))
        yield UserError("NOTEBOOK_PACKAGES_MISSING", location=missing[0].location, path=path, packages=packages)


def _told(package: _Package) -> str:
    if package.name is None:
        return f"{package.text} was not looked for"
    return f"{package.name} {_installed(package.name)}"


def _installed(name: str) -> str | None:
    """Return the version of an installed package; None if it is missing."""
    if name.lower().replace("_", "-") in _OURS:
        return "of Sluice"
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _asked(path: Path, command: str, location: SourceLocation) -> Iterator[_Package]:
    """Yield the packages that a command installs, including packages in requirements files."""
    words = takewhile(lambda word: not word.startswith("#"), shlex.split(command))
    if next(words, "") != "install":
        return
    for word in words:
        name, is_joined, value = word.partition("=")
        if name in _FILES:
            yield from _listed(path.parent / (value if is_joined else next(words, "")), location)
        elif word in _WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            yield _package(word, location)


def _listed(file: Path, location: SourceLocation) -> Iterator[_Package]:
    """Yield the packages in a requirements file; a missing file counts as a package of that name."""
    if not file.is_file():
        yield _Package(text=f"-r {file}", name=None, location=location)
        return
    for line in file.read_text("utf-8").splitlines():
        text = line.partition(" #")[0].strip()
        if text and not text.startswith(("#", "-")):
            yield _package(text, location)


def _package(text: str, location: SourceLocation) -> _Package:
    """Return the package that a word of the command requests; a wheel file has the package's name, a URL may have."""
    match = _NAME.fullmatch(text)
    name = match[1] if match is not None and "/" not in match[1] else None
    if name is None or text.endswith((".whl", ".tar.gz")):
        file = text.rpartition("/")[2]
        egg = re.search(r"[#&]egg=([A-Za-z0-9._-]+)", text)
        name = egg[1] if egg else file.partition("-")[0] if file.endswith(".whl") else None
    return _Package(text=text, name=name, location=location)
