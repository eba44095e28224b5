"""The code of modules that Python functions import by name, as texts that change with it.

A function of an installed package is pickled as the name of its module. The whole package counts, because a function
calls others of it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

_OF_SPARK = frozenset({"pyspark", "py4j"})
_CACHE = "__pycache__"
_MOST_FILES = 5_000
_MOST_HASHED_BYTES = 1 << 20
"""Of a larger file, such as a model, the size and the time of its last change count."""


def module_identity(module: str) -> str | None:
    """Return a text that changes with the code of a module's package, or None if that is unknown.

    It is the name, the version and the list of files of what was installed. Of a package that was not, and of an
    editable install, it is a hash of the files. Modules of Python and of Spark have an empty text.
    """
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top in _OF_SPARK:
        return ""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):  # a module that has no spec was made by code
        return None
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ()) or ([spec.origin] if spec.origin else [])
    identities = [_installed(Path(place), top) or _hash(Path(place)) for place in places]
    known = [each for each in identities if each is not None]
    return "\n".join(known) if known and len(known) == len(identities) else None


def _installed(place: Path, top: str) -> str:
    """Return the identity of what was installed beside a package; "" if none has files of the package there."""
    folder = place.parent
    return _listed(folder, top, folder.stat().st_mtime_ns) if folder.is_dir() else ""


@lru_cache(maxsize=1_000)
def _listed(folder: Path, top: str, _changed_at: int) -> str:
    """Return the names and versions of what has files of a package in a folder, each with a hash of its own list.

    `importlib.metadata` takes a second to find that out. A wheel that was built again may have the version of the one
    before, so the list counts, which has a hash of each file.
    """
    found = []
    for record in sorted(folder.glob("*.dist-info/RECORD")):
        lines = record.read_text("utf-8", "replace").splitlines()
        own = [line for line in lines if line.startswith((f"{top}/", f"{top}.")) and _CACHE not in line]
        if own:
            found.append(f"{record.parent.stem} {_sha256(chr(10).join(sorted(own)).encode())}")
    return "\n".join(found)


def _hash(place: Path) -> str | None:
    """Return a hash of all files at a place; None if it is missing, or has too many."""
    # A module in an archive has a path below that of the archive.
    top = place if place.is_dir() else next((each for each in (place, *place.parents) if each.is_file()), place)
    contents: list[str] = []
    for file in _files(top):
        if len(contents) == _MOST_FILES:
            return None
        known = file.stat()
        contents.append(f"{file.relative_to(top)} {_content(file, known.st_size, known.st_mtime_ns)}")
    return _sha256("\n".join(contents).encode()) if contents else None


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    elif place.is_dir():
        yield from sorted(file for file in place.rglob("*") if _CACHE not in file.parts and file.is_file())


@lru_cache(maxsize=2 * _MOST_FILES)
def _content(file: Path, size: int, changed_at: int) -> str:
    return f"{size} {changed_at}" if size > _MOST_HASHED_BYTES else _sha256(file.read_bytes())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
