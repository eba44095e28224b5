"""Imports from a pipeline's folders: available only while the pipeline's code runs.

Each file of a pipeline's folders runs at most once, as a library or as an import of another file.
Two pipelines may have modules with equal names: each imports its own.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from framework.declare.displays import without_displays
from framework.declare.main_blocks import with_main_blocks
from framework.declare.notebook_cells import cells_of
from framework.declare.notebook_source import python_source
from framework.declare.pipeline_modules import PipelineLoader, PipelineModule
from framework.declare.registered_functions import RegisteredFunctions, accepting
from framework.declare.seen_session import seeing
from framework.declare.session_global import Namespace
from framework.declare.spec_secrets import secrets_of, settings_of
from framework.declare.workspace.dbutils import NotebookExit, module_globals
from framework.declare.workspace.python_files import python_files
from framework.declare.workspace.spark_paths import spark_paths
from framework.declare.workspace.surroundings import Surroundings, surrounded_by
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.declare.pipeline_spec import PipelineSpec

P = ParamSpec("P")
R = TypeVar("R")

# Never imported from a pipeline's folder: the framework and installed packages depend on these modules.
_RESERVED = sys.stdlib_module_names | {"framework", "pyspark", "delta", "py4j", "dlt", "pandas", "numpy", "pyarrow"}
_OF_NOTEBOOKS = (".py", ".ipynb", ".sql")
_INSTALLED = frozenset({"site-packages", "dist-packages", "__pycache__"})
_lock = threading.RLock()


class Neighbours:
    """The folders of one pipeline, and the modules loaded from their files so far.

    Args:
        folders: the folders that modules are imported from, before `sys.path`.
        spark: the session that each module has as the global `spark`.
        spec: the spec of the pipeline, with the workspace of this machine.
        namespaces: the globals of functions given in Python, which get `spark` too.
    """

    def __init__(
        self, folders: Sequence[Path], spark: SparkSession, spec: PipelineSpec, namespaces: Sequence[Namespace] = ()
    ) -> None:
        self.folders = tuple(dict.fromkeys(folders))
        self.spark = spark
        self.namespaces = tuple(namespaces)
        self.functions = RegisteredFunctions(spark)
        self.surroundings = Surroundings(
            spark=spark, root=spec.root, root_path=spec.root_path, paths=spec.workspace.paths,
            secrets=secrets_of(spec), parameters=settings_of(spec)[1],
            run_notebook=self._run_notebook,
        )  # fmt: skip
        self.made: dict[str, ModuleType] = {}
        self.failed: dict[str, BaseException] = {}
        self.included: set[str] = set()
        self._tops = {name for folder in self.folders for name in _module_names(folder)} - _RESERVED
        self._named: dict[str, ModuleType] = {}
        self._replaced: dict[str, ModuleType] = {}
        self._before: set[str] = set()
        self._depth = 0
        importlib.invalidate_caches()  # to find files that were just written

    def _run_notebook(self, name: str, file: str, namespace: dict[str, object]) -> None:
        _Loader("", file, self, is_main=True).run_notebook(name, file, namespace)

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Make the folders importable in the block; blocks may nest and overlap in threads.

        Afterwards `sys.path`, the finders and `sys.modules` contain nothing of the folders.
        """
        with _lock:
            if self._depth == 0:
                self._enter()
            self._depth += 1
        try:
            yield
        finally:
            with _lock:
                self._depth -= 1
                if self._depth == 0:
                    self._leave()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make the folders importable and the session active in the block, and let its code register functions."""
        from framework.foundation.call_sites import call_sites_of_files

        seen = seeing(self.spark, self.namespaces)
        with (
            seen, accepting(self.functions), call_sites_of_files(), self.importable(), surrounded_by(self.surroundings),
            spark_paths(), python_files(self.surroundings),
        ):  # fmt: skip
            yield

    def surround(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, with the surroundings of the pipeline's code while it runs."""

        @functools.wraps(function)
        def surrounded(*args: P.args, **kwargs: P.kwargs) -> R:
            with self.running():
                return function(*args, **kwargs)

        return surrounded

    def run(self, path: Path, name: str) -> None:
        """Run a file as the module `name`, unless it has been imported already; relative imports are to its package."""
        if str(path) in self.made:
            return
        spec = importlib.util.spec_from_file_location(name, path, loader=_Loader(name, str(path), self, is_main=True))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module in the folders; part of the protocol of Python's finders."""
        if fullname.partition(".")[0] in _RESERVED:
            return None
        spec = PathFinder.find_spec(fullname, [str(each) for each in self.folders] if path is None else path, target)
        if spec is None or spec.origin is None or not self._holds(spec.origin):
            return None
        spec.loader = _Loader(fullname, spec.origin, self)
        return spec

    def _enter(self) -> None:
        # A copy, because another thread may import a module meanwhile.
        hidden = [name for name in list(sys.modules) if name.partition(".")[0] in self._tops or name in self._named]
        self._replaced = {name: sys.modules.pop(name) for name in hidden}
        sys.modules.update(self._named)
        self._before = set(sys.modules) - self._named.keys()
        for module in self._named.values():
            _pickle_by_value(module)
        sys.path[:0] = [str(folder) for folder in self.folders]
        sys.meta_path.insert(0, self)

    def _leave(self) -> None:
        sys.meta_path.remove(self)
        for folder in self.folders:
            if str(folder) in sys.path:
                sys.path.remove(str(folder))
        for name in sys.modules.keys() - self._before:
            if self._is_ours(sys.modules.get(name)):
                self._named[name] = sys.modules.pop(name)
        # Modules are pickled by value only while they are importable: later, their names may be another pipeline's.
        for module in self._named.values():
            _pickle_by_name(module)
        sys.modules.update(self._replaced)
        self._replaced = {}

    def _is_ours(self, module: ModuleType | None) -> bool:
        """Whether a module was loaded from a file of the folders, or is a namespace package in them."""
        loader = getattr(getattr(module, "__spec__", None), "loader", None)
        if isinstance(loader, _Loader):
            return loader.neighbours is self
        folders = getattr(module, "__path__", ()) if getattr(module, "__file__", None) is None else ()
        return any(self._holds(str(path)) for path in folders)

    def _holds(self, path: str) -> bool:
        """Whether a path is in one of the folders, but not in packages installed below it or in hidden folders."""
        for folder in self.folders:
            if Path(path).is_relative_to(folder):
                parts = Path(path).relative_to(folder).parts
                return not any(part.startswith(".") or part in _INSTALLED for part in parts)
        return False


class _Loader(PipelineLoader):
    """Loads a module from a file of a pipeline: once, with `spark` as a global, and without a bytecode cache."""

    def __init__(self, name: str, path: str, neighbours: Neighbours, *, is_main: bool = False) -> None:
        super().__init__(name, path)
        self.neighbours = neighbours
        self._is_main = is_main

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module that was already loaded from the file, else an empty one."""
        return self.neighbours.made.get(str(spec.origin)) or PipelineModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Run the file's code unless it has run before; a file that failed raises the same exception again."""
        path = str(self.path)
        if path in self.neighbours.failed:
            raise self.neighbours.failed[path]
        if path in self.neighbours.made:
            return
        self.neighbours.made[path] = module
        module.__dict__.update(module_globals(self.neighbours.spark))
        _pickle_by_value(module)
        try:
            super().exec_module(module)
        except NotebookExit:
            return  # the code has ended the notebook itself
        except BaseException as error:
            self.neighbours.failed[path] = error
            del self.neighbours.made[path]
            raise

    def get_code(self, fullname: str) -> CodeType:
        """Compile the current content of the file, of any kind that a pipeline may have."""
        path = self.get_filename(fullname)
        return self._code_of(Path(path), self.get_data(path))

    def run_notebook(self, name: str, file: str, namespace: dict[str, object]) -> None:
        """Run a notebook in the namespace of the one that runs it, as `%run` does.

        Args:
            name: its path, relative to the folder of `file`; without a suffix, as on Databricks, or with it.
            file: the notebook with the command.
            namespace: the names of this notebook.

        Raises:
            UserError: MODULE_NOT_FOUND.
        """
        base = Path(file).parent
        paths = [(base / name).resolve(), *((base / f"{name}{suffix}").resolve() for suffix in _OF_NOTEBOOKS)]
        found = next((path for path in paths if path.is_file()), None)
        if found is None:
            raise UserError("MODULE_NOT_FOUND", location=caller_location(), path=name, root=base)
        self.neighbours.included.add(str(found))
        exec(self._code_of(found, found.read_bytes()), namespace)  # noqa: S102 - the code of the pipeline

    def _code_of(self, path: Path, content: bytes) -> CodeType:
        source = python_source(path, content, self._value_of)
        tree = ast.parse(source, str(path))
        if self._is_main:
            is_notebook = cells_of(path, content.decode(errors="replace")) is not None
            tree = with_main_blocks(tree, is_notebook=is_notebook)
        return self.source_to_code(without_displays(tree, str(path)), str(path))

    def _value_of(self, key: str) -> str | None:
        found: str | None = self.neighbours.spark.conf.get(key, None)
        return found


def _module_names(folder: Path) -> Iterator[str]:
    """The import names of the folder's own modules and packages."""
    if folder.is_dir():
        for entry in folder.iterdir():
            if entry.suffix == ".py" or (entry / "__init__.py").is_file():
                yield entry.stem


def _pickle_by_value(module: ModuleType) -> None:
    from framework.declare.pickled_modules import pickle_by_value

    pickle_by_value(module)


def _pickle_by_name(module: ModuleType) -> None:
    from framework.declare.pickled_modules import pickle_by_name

    pickle_by_name(module)
