"""Loads a pipeline's modules into a registry: files of its libraries, and modules and functions given in Python."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from framework.declare.modules.databricks_only import advice_for
from framework.declare.modules.pipeline_imports import PipelineImports
from framework.declare.modules.shims import shimmed
from framework.declare.pipeline_spec import Library, PipelineSpec
from framework.declare.registry import Registry, registering
from framework.declare.session.mutations import guarded_module
from framework.declare.session.session_global import namespace_of
from framework.declare.specs import Pairs
from framework.declare.sql.source import SUFFIX as SQL_SUFFIX
from framework.declare.workspace.dbutils import NotebookExit
from framework.declare.workspace.local_file import LOCAL_NAME
from framework.declare.workspace.surroundings import loading_from
from framework.foundation.errors import GraphErrors, SluiceError, UserError
from framework.foundation.locations import SourceLocation, innermost_user_line
from framework.foundation.notebooks import SUFFIX
from framework.foundation.wording import exception_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.declare.session.registered_functions import RegisteredFunctions


_TYPES = {bool: "boolean", bytes: "binary", float: "double", int: "bigint", str: "string"}
"""Return types by annotation; a function without one of these returns strings, as for `spark.udf.register`."""


_WILD = frozenset("*?[")
_LEFT_OUT = ("__pycache__", ".", "_delta_log")
_TEST = re.compile(rb"^\s*(?:from|import)\s+pyspark\.pipelines\.testing\b", re.MULTILINE)
"""The import of a test of Databricks' API, which may be among the files of a pattern."""

Module = str | Path | ModuleType | Callable[[], object]


def load_modules(spec: PipelineSpec, modules: Sequence[Module], registry: Registry, spark: SparkSession) -> str | None:
    """Run every module of the pipeline once; its declarations are added to `registry`.

    Files run in the order of the libraries, then of their paths. They can import from their own folders and from the
    pipeline's folder, and have `spark` as a global. Functions also have `spark` as a global, while they and the query
    functions that they declare run.

    Faults of declarations stay in the registry: the graph raises them together with faults of the queries. After an
    exception, the registry has the declarations of all code that ran, so their queries can still be analysed.

    Args:
        spec: the pipeline spec with the libraries.
        modules: further files, modules and functions.
        registry: the registry to fill.
        spark: the session that the modules see.

    Returns:
        A hash of the source of all files that were run, or imported from the pipeline's folders. None if a function has
        no file (a notebook, a prompt), because code that it uses may change between cells.

    Raises:
        GraphErrors: a MODULE_FAILED for each module that raised, with its file and line, and an error for each
            file of an unsupported type.
        UserError: a file is missing, or there is no file.
    """
    root = Path(spec.root) if spec.root is not None else None
    files = _files(spec, root, modules)
    functions = [module for module in modules if not isinstance(module, str | Path | ModuleType)]
    folders = [*_import_roots(spec, root), *(file.parent for file in files), *(_package(file)[0] for file in files)]
    namespaces = [found for function in functions if (found := namespace_of(function)) is not None]
    loading = _Loading(imports=PipelineImports(folders, spark, spec, namespaces, registry.inputs))
    with registering(registry), shimmed(), guarded_module(), loading.imports.running():
        loading.local_functions(spec)
        for file in files:
            loading.file(file)
        for function in functions:
            loading.function(function)
    _surround(registry, loading.imports)
    loading.errors.extend(_without_dataset(registry))
    if loading.errors:
        errors = [*loading.errors, *registry.faults]
        raise GraphErrors(list({error.render(): error for error in errors}.values()))
    ran = {*loading.imports.made, *loading.imports.included}
    return _code_version([*files, *map(Path, ran)], functions)


class _Loading:
    """Runs modules one by one and gathers their exceptions."""

    def __init__(self, *, imports: PipelineImports) -> None:
        self.imports = imports
        self.errors: list[SluiceError] = []

    def file(self, path: Path) -> None:
        """Run one file."""
        if path.suffix not in _SOURCES:
            self.errors.append(_unsupported(path))
            return
        with self._gathering(str(path)), loading_from(str(path.parent)):
            _run(path, self.imports)

    def local_functions(self, spec: PipelineSpec) -> None:
        """Register the functions that this machine provides in place of catalog functions."""
        entries = spec.workspace.functions
        with self._gathering(LOCAL_NAME):
            self.errors += register_local_functions(self.imports.spark, self.imports.functions, entries)

    def function(self, function: Callable[[], object]) -> None:
        """Call a function that contains declarations."""
        with self._gathering(getattr(function, "__name__", repr(function))):
            function()

    @contextmanager
    def _gathering(self, file: str) -> Iterator[None]:
        try:
            yield
        except SluiceError as error:
            self.errors.append(error)
        except SyntaxError as error:
            location = SourceLocation(file=error.filename or file, line=error.lineno or 1)
            self.errors.append(_failed(location, file, f"SyntaxError: {error.msg}", error))
        except KeyboardInterrupt:
            raise
        except NotebookExit:
            return  # the code has exited the notebook
        except BaseException as error:  # noqa: BLE001 - a module may raise anything; recorded with its location
            location = innermost_user_line(error.__traceback__) or SourceLocation(file=file, line=1)
            self.errors.append(_failed(location, file, exception_text(error), error))


def _failed(location: SourceLocation, file: str, cause: str, error: BaseException) -> UserError:
    """Return MODULE_FAILED for the file that raised, which may be an import of the run file."""
    raised_in = location.file if Path(location.file).is_file() else file
    advice = advice_for(error) or "Correct the module."
    return UserError("MODULE_FAILED", location=location, file=raised_in, cause=cause, advice=advice)


def check_libraries(spec: PipelineSpec) -> None:
    """Check that every library pattern of a spec matches a file; if not, the code may be incomplete.

    Raises:
        UserError: PRUNE_LIBRARY_EMPTY.
    """
    for library in spec.libraries if spec.root is not None else ():
        if not library_files(replace(spec, libraries=(library,)), Path(spec.root or ""), _SOURCES):
            location = SourceLocation(file=str(spec.file), line=library.line)
            raise UserError("PRUNE_LIBRARY_EMPTY", location=location, pattern=library.pattern)


def _files(spec: PipelineSpec, root: Path | None, modules: Sequence[Module]) -> list[Path]:
    """Return the files of the libraries, then the files given in Python; each once.

    Raises:
        UserError: MODULE_NOT_FOUND, MODULE_NOT_LOADABLE, PIPELINE_SPEC_INVALID_GLOB_PATTERN;
            PIPELINE_WITHOUT_SOURCES if a spec matches no file.
    """
    found = library_files(spec, root, _SOURCES) if root is not None else []
    for module in modules:
        file = module.__file__ if isinstance(module, ModuleType) else None
        if file is not None:
            found.append(Path(file).resolve())
        elif isinstance(module, ModuleType) or not (isinstance(module, str | Path) or callable(module)):
            raise UserError("MODULE_NOT_LOADABLE", module=module)
        elif isinstance(module, str | Path):
            path = (root or Path.cwd()) / module
            if not path.is_file():
                raise UserError("MODULE_NOT_FOUND", path=module, root=root or Path.cwd())
            found.append(path.resolve())
    if root is not None and not found and not modules:
        raise UserError("PIPELINE_WITHOUT_SOURCES", name=spec.name, root=root)
    return list(dict.fromkeys(found))


def _run(path: Path, imports: PipelineImports) -> None:
    """Run a file as a module with a unique name, because files in two folders may have the same name."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    package = _package(path)[1]
    imports.run(path, f"{package}sluice_module_{digest}_{path.stem}")


def _import_roots(spec: PipelineSpec, root: Path | None) -> list[Path]:
    """Return the folders of the spec that modules import from."""
    if root is None:
        return []
    return [root] if spec.root_path is None else [root, (root / spec.root_path).resolve()]


def _package(file: Path) -> tuple[Path, str]:
    """Return the folder that has the outermost package of a file, and the file's package name with a trailing dot."""
    folder, names = file.parent, list[str]()
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, "".join(f"{name}." for name in names)


_SOURCES = (".py", SUFFIX, SQL_SUFFIX)


def _unsupported(path: Path) -> UserError:
    return UserError(
        "PIPELINE_UNSUPPORTED_DEFINITIONS_FILE_EXTENSION",
        location=SourceLocation(file=str(path), line=1),
        path=path,
        supported=", ".join(_SOURCES),
    )


def _without_dataset(registry: Registry) -> Iterator[UserError]:
    """Yield the errors of expectations without a dataset, which would otherwise be ignored."""
    for waiting in registry.waiting_expectations:
        yield UserError("EXPECTATION_WITHOUT_DATASET", location=waiting.location, name=waiting.name)


def _surround(registry: Registry, imports: PipelineImports) -> None:
    """Make the modules' folders and the session available in calls of the functions that the modules declared."""
    registry.queries.update({name: imports.surround(each) for name, each in registry.queries.items()})
    registry.snapshot_functions.update(
        {name: imports.surround(each) for name, each in registry.snapshot_functions.items()}
    )
    registry.batch_functions.update({name: imports.surround(each) for name, each in registry.batch_functions.items()})
    registry.hook_functions.update({name: imports.surround(each) for name, each in registry.hook_functions.items()})


def _code_version(files: Sequence[Path], functions: Sequence[Callable[[], object]]) -> str | None:
    """Return a hash of the source of the files and of the functions' files; None if a function has no file."""
    written_in = [_source_file(function) for function in functions]
    sources = sorted({*files, *(path for path in written_in if path is not None)})
    if None in written_in:
        return None
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources if path.is_file())).hexdigest()


def _source_file(function: Callable[[], object]) -> Path | None:
    """Return the source file of a function; None if it has none (a prompt, a notebook)."""
    module = sys.modules.get(getattr(function, "__module__", ""))
    try:
        found = inspect.getsourcefile(inspect.unwrap(function)) or getattr(module, "__file__", None)
    except TypeError:
        return None
    return Path(found) if found is not None and Path(found).is_file() else None


def library_files(spec: PipelineSpec, root: Path, suffixes: Collection[str]) -> list[Path]:
    """Return every file of the libraries once: in order of the libraries, then of paths.

    A named file is included with any suffix; a pattern includes only files with one of `suffixes`, and no tests of
    Databricks' API for unit tests.

    Raises:
        UserError: MODULE_NOT_FOUND for a missing named file, PIPELINE_SPEC_INVALID_GLOB_PATTERN
            for a folder without `/**`.
    """
    found = (path for library in spec.libraries for path in _matches(spec, library, root, suffixes))
    return list(dict.fromkeys(found))


def _matches(spec: PipelineSpec, library: Library, root: Path, suffixes: Collection[str]) -> Iterator[Path]:
    location = SourceLocation(file=str(spec.file or root), line=library.line)
    folder, pattern = _split(library.pattern)
    base = (root / folder).resolve()
    if pattern:
        yield from _below(base, pattern, suffixes)
    elif base.is_file():
        yield base
    elif base.is_dir():
        raise UserError("PIPELINE_SPEC_INVALID_GLOB_PATTERN", location=location, pattern=library.pattern)
    else:
        raise UserError("MODULE_NOT_FOUND", location=location, path=library.pattern, root=root)


def _split(text: str) -> tuple[Path, str]:
    """Return the path before the first wildcard, and the pattern from there on; a final `**` becomes `**/*`."""
    parts = Path(text).parts
    wild = next((index for index, part in enumerate(parts) if _WILD & set(part)), len(parts))
    pattern = "/".join(parts[wild:])
    return Path(*parts[:wild]), f"{pattern}/*" if pattern.endswith("**") else pattern


def _below(base: Path, pattern: str, suffixes: Collection[str]) -> Iterator[Path]:
    for path in sorted(base.glob(pattern)):
        parts = path.relative_to(base).parts
        if path.suffix in suffixes and path.is_file() and not any(part.startswith(_LEFT_OUT) for part in parts):
            if path.suffix == ".py" and _TEST.search(path.read_bytes()):
                continue
            yield path


def register_local_functions(
    spark: SparkSession, functions: RegisteredFunctions, entries: Pairs
) -> Iterator[UserError]:
    """Register a Python function under each name that queries call; yield the errors of missing functions.

    Args:
        spark: the session of the pipeline.
        functions: the functions of the pipeline.
        entries: pairs of name and `module.function`; the module is in a folder of the pipeline, or installed.

    Raises:
        UserError: FUNCTION_NAME_BUILT_IN, FUNCTION_REGISTERED_TWICE.
    """
    for name, place in entries:
        try:
            found = _found(place)
            returns = _type_of(found)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            yield UserError("LOCAL_FUNCTION_MISSING", name=name, place=place, cause=exception_text(error))
        else:
            functions.create_python(spark, name, found, returns)


def _found(place: str) -> Callable[..., Any]:
    module, _, name = place.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def _type_of(function: Callable[..., Any]) -> str | None:
    """Return the SQL return type of a function; None if the function has it itself, such as a `udf`."""
    if hasattr(function, "returnType"):
        return None
    annotation = inspect.signature(function, eval_str=True).return_annotation
    return _TYPES.get(annotation, "string")
