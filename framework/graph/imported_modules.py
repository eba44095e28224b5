"""The code of modules that Python functions import by name, as texts that change with it.

A function of an installed package is pickled as the name of its module. The whole package counts, because a function
calls others of it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path

_OF_SPARK = frozenset({"pyspark", "py4j"})
_CACHE = "__pycache__"
_MOST_FILES = 5_000
_MOST_HASHED_BYTES = 1 << 20
"""Of a larger file, such as a model, the size and the time of its last change count."""


def module_identity(module: str) -> str | None:
    """Return a text that changes with the code of a module's package, or None if that is unknown.

    It is the version and the list of files of the distribution that installed the package. Of a package without one,
    and of an editable install, it is a hash of the files. Modules of Python and of Spark have an empty text.
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
    places = _places(spec)
    installed = [_installed(each, top) for each in _distributions(top) if _has(each, places)]
    return "\n".join(installed) if installed else _hash(places)


def _places(spec: ModuleSpec) -> list[Path]:
    """Return the folders of a package, or the file of a module."""
    found: Sequence[str] = list(spec.submodule_search_locations or ()) or ([spec.origin] if spec.origin else [])
    return [Path(each) for each in found]


@cache
def _distributions_by_package() -> Mapping[str, list[str]]:
    return packages_distributions()


def _distributions(top: str) -> list[Distribution]:
    return [distribution(name) for name in sorted(set(_distributions_by_package().get(top, ())))]


def _has(installed: Distribution, places: Sequence[Path]) -> bool:
    """Whether a distribution is beside the package: an editable one is elsewhere."""
    folder = Path(str(installed.locate_file("")))
    return bool(places) and all(place.is_relative_to(folder) for place in places)


def _installed(installed: Distribution, top: str) -> str:
    # A wheel that was built again may have the version of the one before; the list of files has their hashes.
    files = (installed.read_text("RECORD") or "").splitlines()
    own = sorted(line for line in files if line.startswith((f"{top}/", f"{top}.")) and _CACHE not in line)
    listed = hashlib.sha256("\n".join(own).encode()).hexdigest()[:32]
    return f"{installed.name} {installed.version} {listed}"


def _hash(places: Sequence[Path]) -> str | None:
    """Return a hash of all files at some places; None if one is missing, or there are too many."""
    found = hashlib.sha256()
    count = 0
    for place in places:
        # A module in an archive has a path below that of the archive.
        top = next((each for each in (place, *place.parents) if each.exists()), place)
        for file in _files(top):
            count += 1
            if count > _MOST_FILES:
                return None
            found.update(f"{file.relative_to(top)} {_content(file)}\n".encode())
    return found.hexdigest()[:32] if count else None


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    elif place.is_dir():
        yield from sorted(file for file in place.rglob("*") if _CACHE not in file.parts and file.is_file())


def _content(file: Path) -> str:
    known = file.stat()
    if known.st_size > _MOST_HASHED_BYTES:
        return f"{known.st_size} {known.st_mtime_ns}"
    return hashlib.sha256(file.read_bytes()).hexdigest()
