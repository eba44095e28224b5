"""Identity texts of the modules that Python functions import by name: a text changes when the code does.

A function of an installed package is pickled as its module and name. The identity covers the whole package, because
a function calls other functions of it.
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
"""A larger file, such as a model, counts with its size and modification time only."""


def module_identity(module: str) -> str | None:
    """Return a text that changes with the code of a module's package; None if the code is unknown.

    For an installed distribution, it has the name, the version and the list of files. For other packages and editable
    installs, it is a hash of the files. For modules of Python and of Spark, it is empty.
    """
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top in _OF_SPARK:
        return ""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):  # a module without a spec was created by code
        return None
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ()) or ([spec.origin] if spec.origin else [])
    identities = [_installed(Path(place), top) or _hash(Path(place)) for place in places]
    known = [each for each in identities if each is not None]
    return "\n".join(known) if known and len(known) == len(identities) else None


def _installed(place: Path, top: str) -> str:
    """Return the identity of the distributions that installed a package at a place; "" if there are none."""
    folder = place.parent
    return _listed(folder, top, folder.stat().st_mtime_ns) if folder.is_dir() else ""


@lru_cache(maxsize=1_000)
def _listed(folder: Path, top: str, _changed_at: int) -> str:
    """Return the names and versions of the distributions with files of a package, each with a hash of its RECORD.

    `importlib.metadata` takes a second for this. A rebuilt wheel may have the same version as before, so the hash of
    RECORD counts, which has a hash of each file.
    """
    found = []
    for record in sorted(folder.glob("*.dist-info/RECORD")):
        lines = record.read_text("utf-8", "replace").splitlines()
        own = [line for line in lines if line.startswith((f"{top}/", f"{top}.")) and _CACHE not in line]
        if own:
            found.append(f"{record.parent.stem} {_sha256(chr(10).join(sorted(own)).encode())}")
    return "\n".join(found)


def _hash(place: Path) -> str | None:
    """Return a hash of all files at a place; None if there are no files, or too many."""
    # A module in an archive has a path below the path of the archive.
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
