"""The files of a pipeline's libraries, in a deterministic order."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from framework.declare.pipeline_spec import Library, PipelineSpec
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

_WILD = frozenset("*?[")
_LEFT_OUT = ("__pycache__", ".", "_delta_log")


def library_files(spec: PipelineSpec, root: Path, suffixes: Collection[str]) -> list[Path]:
    """Return every file of the libraries once: in order of the libraries, then of paths.

    A named file is included with any suffix; a pattern includes only files with one of `suffixes`.

    Raises:
        UserError: MODULE_NOT_FOUND for a missing named file, PIPELINE_SPEC_INVALID_GLOB_PATTERN
            for a folder without `/**`.
    """
    found = (path for library in spec.libraries for path in _matches(spec, library, root, suffixes))
    return list(dict.fromkeys(found))


def _matches(spec: PipelineSpec, library: Library, root: Path, suffixes: Collection[str]) -> Iterator[Path]:
    place = SourceLocation(file=str(spec.file or root), line=library.line)
    folder, pattern = _split(library.pattern)
    base = (root / folder).resolve()
    if pattern:
        yield from _below(base, pattern, suffixes)
    elif base.is_file():
        yield base
    elif base.is_dir():
        raise UserError("PIPELINE_SPEC_INVALID_GLOB_PATTERN", location=place, pattern=library.pattern)
    else:
        raise UserError("MODULE_NOT_FOUND", location=place, path=library.pattern, root=root)


def _split(text: str) -> tuple[Path, str]:
    """The path before the first wildcard, and the pattern from there on; a final `**` becomes `**/*`."""
    parts = Path(text).parts
    wild = next((index for index, part in enumerate(parts) if _WILD & set(part)), len(parts))
    pattern = "/".join(parts[wild:])
    return Path(*parts[:wild]), f"{pattern}/*" if pattern.endswith("**") else pattern


def _below(base: Path, pattern: str, suffixes: Collection[str]) -> Iterator[Path]:
    for path in sorted(base.glob(pattern)):
        parts = path.relative_to(base).parts
        if path.suffix in suffixes and path.is_file() and not any(part.startswith(_LEFT_OUT) for part in parts):
            yield path
