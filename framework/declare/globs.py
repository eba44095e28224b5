"""The files that a pipeline's libraries name, in an order that is the same everywhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from framework.declare.pipeline_spec import Library, PipelineSpec
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

_WILD = frozenset("*?[")
_LEFT_OUT = ("__pycache__", ".", "_delta_log")


def library_files(spec: PipelineSpec, root: Path, suffixes: Collection[str]) -> list[Path]:
    """Every file of the libraries once: in order of the libraries, then of paths.

    A file that is named is taken whatever it is; a pattern takes those whose ending is in `suffixes`.

    Raises:
        UserError: MODULE_NOT_FOUND for a named file that is not there, PIPELINE_SPEC_INVALID_GLOB_PATTERN
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
    """The folder or file up to the first wildcard, and the pattern from there on; `**` means the files below."""
    parts = Path(text).parts
    wild = next((index for index, part in enumerate(parts) if _WILD & set(part)), len(parts))
    pattern = "/".join(parts[wild:])
    return Path(*parts[:wild]), f"{pattern}/*" if pattern.endswith("**") else pattern


def _below(base: Path, pattern: str, suffixes: Collection[str]) -> Iterator[Path]:
    for path in sorted(base.glob(pattern)):
        parts = path.relative_to(base).parts
        if path.suffix in suffixes and path.is_file() and not any(part.startswith(_LEFT_OUT) for part in parts):
            yield path
