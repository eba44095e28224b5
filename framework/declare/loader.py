"""Loads a pipeline's modules into a registry: files of its libraries, or modules and functions given in Python."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from framework.declare.mutations import guarded_module
from framework.declare.pipeline_spec import Library, PipelineSpec
from framework.declare.registry import Registry, registering
from framework.declare.shims import shimmed
from framework.foundation.errors import GraphErrors, SluiceError, UserError
from framework.foundation.locations import SourceLocation, innermost_user_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Module = str | Path | ModuleType | Callable[[], object]

_HIDDEN = ("__pycache__", ".", "_delta_log")


def load_modules(spec: PipelineSpec, modules: Sequence[Module], registry: Registry, spark: SparkSession) -> str:
    """Run every module of the pipeline once, so that it declares into `registry`.

    Files are taken in order of the libraries, then of their paths; their own folders and the
    pipeline's can be imported from; `spark` is a global of each.

    Args:
        spec: names the libraries.
        modules: files, modules and functions besides them.
        registry: filled.
        spark: the session that the modules see.

    Returns:
        A hash of the source of all files that were run or imported from the pipeline's folders.

    Raises:
        GraphErrors: a MODULE_FAILED for each module that raised, with its file and line; files that
            are missing or of a kind that is not known.
    """
    root = Path(spec.root) if spec.root is not None else Path.cwd()
    files = [
        *_library_files(spec, root),
        *(_existing(Path(each), root) for each in modules if isinstance(each, str | Path)),
    ]
    if spec.root is not None and not files:
        raise UserError("PIPELINE_WITHOUT_SOURCES", name=spec.name, root=root)
    loading = _Loading(registry=registry, spark=spark)
    with registering(registry), shimmed(), guarded_module(), _importable(root, files) as imported:
        for file in files:
            loading.file(file)
        for module in modules:
            if not isinstance(module, str | Path):
                loading.given(module)
    _check_waiting(registry, loading.errors)
    if loading.errors:
        raise GraphErrors(loading.errors)
    sources = sorted({*files, *(Path(str(module.__file__)) for module in imported)})
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()


class _Loading:
    """Runs modules one by one and gathers what they raise."""

    def __init__(self, *, registry: Registry, spark: SparkSession) -> None:
        self._registry = registry
        self._spark = spark
        self.errors: list[SluiceError] = []

    def file(self, path: Path) -> None:
        """Run one file."""
        loader = _LOADERS.get(path.suffix)
        if loader is None:
            self.errors.append(_unsupported(path))
            return
        with self._gathering(str(path)):
            loader(path, self._spark)

    def given(self, module: Module) -> None:
        """Take a function by calling it; a module by running its source again, with `spark` as a global."""
        if isinstance(module, ModuleType) and module.__file__ is not None:
            self.file(Path(module.__file__))
        elif callable(module):
            with self._gathering(getattr(module, "__name__", repr(module))):
                module()
        else:
            self.errors.append(UserError("MODULE_NOT_LOADABLE", module=module))

    @contextmanager
    def _gathering(self, file: str) -> Iterator[None]:
        try:
            yield
        except SluiceError as error:
            self.errors.append(error)
        except SyntaxError as error:
            place = SourceLocation(file=error.filename or file, line=error.lineno or 1)
            self.errors.append(UserError("MODULE_FAILED", location=place, file=file, cause=f"SyntaxError: {error.msg}"))
        except Exception as error:  # noqa: BLE001 - a module may raise anything; recorded with its place
            place = innermost_user_line(error.__traceback__) or SourceLocation(file=file, line=1)
            cause = f"{type(error).__name__}: {error}"
            self.errors.append(UserError("MODULE_FAILED", location=place, file=file, cause=cause))


def _run_python(path: Path, spark: SparkSession) -> None:
    """Run a Python file as a module of its own, whose functions travel to executors with their code."""
    from pyspark import cloudpickle

    name = f"sluice_module_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    module.__dict__["spark"] = spark
    sys.modules[name] = module
    cloudpickle.register_pickle_by_value(module)
    specification.loader.exec_module(module)


_LOADERS: dict[str, Callable[[Path, SparkSession], None]] = {".py": _run_python}
_LATER = {".sql": "SQL files can't be read yet", ".ipynb": "notebooks can't be read yet"}


def _unsupported(path: Path) -> UserError:
    return UserError(
        "PIPELINE_UNSUPPORTED_DEFINITIONS_FILE_EXTENSION",
        location=SourceLocation(file=str(path), line=1),
        path=path,
        reason=_LATER.get(path.suffix, "its ending is not known"),
        supported=", ".join(_LOADERS),
    )


@contextmanager
def _importable(root: Path, files: Sequence[Path]) -> Iterator[list[ModuleType]]:
    """Let modules import their neighbours; afterwards no trace is left for the next pipeline's modules.

    What was imported keeps living in the functions that use it, and travels to executors with them.
    """
    from pyspark import cloudpickle

    folders = list(dict.fromkeys(str(path) for path in (root, *(file.parent for file in files))))
    before, path_before = set(sys.modules), list(sys.path)
    sys.path[:0] = folders
    imported: list[ModuleType] = []
    try:
        yield imported
    finally:
        sys.path[:] = path_before
        for name in set(sys.modules) - before:
            module = sys.modules[name]
            file = getattr(module, "__file__", None)
            if file is None or not file.startswith(tuple(f"{folder}/" for folder in folders)):
                continue
            if "site-packages" in file:
                continue
            imported.append(module)
            if not name.startswith("sluice_module_"):
                cloudpickle.register_pickle_by_value(module)
                del sys.modules[name]


def _library_files(spec: PipelineSpec, root: Path) -> list[Path]:
    found = [path for library in spec.libraries for path in _matches(spec, library, root)]
    return list(dict.fromkeys(found))


def _matches(spec: PipelineSpec, library: Library, root: Path) -> Iterator[Path]:
    """The files of a pattern, sorted; a pattern without wildcards must name a file that exists."""
    place = SourceLocation(file=str(spec.file or root), line=library.line)
    if Path(library.pattern).is_absolute() or ".." in Path(library.pattern).parts:
        raise UserError("PIPELINE_SPEC_INVALID_GLOB_PATTERN", location=place, pattern=library.pattern)
    if not set(library.pattern) & set("*?["):
        path = root / library.pattern
        if not path.is_file():
            raise UserError("MODULE_NOT_FOUND", location=place, path=library.pattern, root=root)
        yield path
        return
    pattern = f"{library.pattern}/*" if library.pattern.endswith("**") else library.pattern
    for path in sorted(root.glob(pattern)):
        parts = path.relative_to(root).parts
        if path.is_file() and not any(part.startswith(_HIDDEN) for part in parts) and path.suffix != ".pyc":
            yield path


def _existing(path: Path, root: Path) -> Path:
    full = path if path.is_absolute() else root / path
    if not full.is_file():
        raise UserError("MODULE_NOT_FOUND", path=path, root=root)
    return full


def _check_waiting(registry: Registry, errors: list[SluiceError]) -> None:
    """Expectations without a dataset would be forgotten; each is a fault."""
    errors.extend(
        UserError("EXPECTATION_WITHOUT_DATASET", location=waiting.location, name=waiting.name)
        for waiting in registry.waiting_expectations
    )
