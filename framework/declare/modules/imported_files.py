"""The files of a pipeline and the files that they import or run, found in their texts without running them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_SUFFIXES = (".py", ".ipynb", ".sql")
# In an `.ipynb` file, a line of code begins with a quote.
_IMPORT = re.compile(
    r"""^[ \t]*"?[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[\w., \t]*)|import[ \t]+([\w., \t]+))""",
    re.MULTILINE,
)
_RUN = re.compile(r"%run[ \t]+[\"']?([^\s\"'\\]+)")


def with_imported(files: Iterable[Path], folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each file with its text, and each file that one of them imports or runs, once.

    Args:
        files: files of the pipeline.
        folders: the folders that modules are imported from; installed packages are not in them.

    Raises:
        OSError: a file cannot be read.
    """
    waiting = [*files]
    seen = {*waiting}
    while waiting:
        path = waiting.pop(0)
        if not path.is_file():
            continue
        text = path.read_text("utf-8", errors="replace")
        yield path, text
        for other in _used(path, text, folders):
            if other not in seen:
                seen.add(other)
                waiting.append(other)


def _used(path: Path, text: str, folders: Sequence[Path]) -> Iterator[Path]:
    for match in _IMPORT.finditer(text):
        source, names, modules = match.groups()
        if modules is not None:
            wanted = [name.split()[0] for name in modules.split(",") if name.strip()]
            for name in wanted:
                yield from _module(name, [path.parent, *folders])
            continue
        dots = len(source) - len(source.lstrip("."))
        places = [path.parents[dots - 1]] if 0 < dots <= len(path.parents) else [path.parent, *folders]
        base = source.lstrip(".")
        yield from _module(base, places)
        for name in re.findall(r"\w+", names):
            yield from _module(f"{base}.{name}".lstrip("."), places)
    for match in _RUN.finditer(text):
        base = path.parent / match[1]
        yield from (found for end in ("", *_SUFFIXES) if (found := base.with_name(base.name + end)).is_file())


def _module(name: str, places: Iterable[Path]) -> Iterator[Path]:
    """Yield the file of a module, and the files of its packages."""
    parts = [part for part in name.split(".") if part]
    for place in places:
        for depth in range(1, len(parts) + 1):
            base = place.joinpath(*parts[:depth])
            yield from (file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file())
