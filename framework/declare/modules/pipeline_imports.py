"""Imports from a pipeline's folders, available only while the pipeline's code runs.

Each file of a pipeline's folders runs at most once, as a library or as an import of another file. Two pipelines in one
process may have modules of the same name: each pipeline imports its own, even in overlapping threads, because an import
statement is resolved for the pipeline of the importing module.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from framework.declare.inputs import GivenInputs
from framework.declare.modules.displays import without_displays
from framework.declare.modules.notebook_cells import cells_of
from framework.declare.modules.notebook_source import python_source
from framework.declare.modules.pipeline_modules import PipelineLoader, PipelineModule, importing
from framework.declare.modules.shown_modules import ShownModules
from framework.declare.session.active_session import seeing
from framework.declare.session.patches import Patch, Patches
from framework.declare.session.registered_functions import RegisteredFunctions, accepting
from framework.declare.session.session_global import Namespace
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
_SHOWN = ShownModules()
_INVALIDATING = threading.Lock()  # Python's function fails if two threads call it


class PipelineImports:
    """The folders of one pipeline, and the modules loaded from their files so far.

    Args:
        folders: the folders that modules are imported from, before `sys.path`.
        spark: the session that each module has as the global `spark`.
        spec: the spec of the pipeline, with the local replacements of a workspace.
        namespaces: the globals of functions given in Python, which get `spark`, too.
        inputs: gives the rows of what the code reads; None outside of a sandbox.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        spark: SparkSession,
        spec: PipelineSpec,
        namespaces: Sequence[Namespace] = (),
        inputs: GivenInputs | None = None,
    ) -> None:
        self.folders = tuple(dict.fromkeys(folders))
        self.spark = spark
        self.namespaces = tuple(namespaces)
        self.functions = RegisteredFunctions(spark)
        self.surroundings = Surroundings(
            spark=spark,
            root=spec.root,
            root_path=spec.root_path,
            paths=spec.workspace.paths,
            secrets=secrets_of(spec),
            parameters=settings_of(spec)[1],
            run_notebook=self._run_notebook,
            inputs=inputs,
        )
        self.made: dict[str, ModuleType] = {}
        self.failed: dict[str, BaseException] = {}
        self.included: set[str] = set()
        self.named: dict[str, ModuleType] = {}
        self._tops = {name for folder in self.folders for name in _module_names(folder)} - _RESERVED
        self._importing = threading.RLock()  # one thread loads a module; others wait until it is complete
        with _INVALIDATING:
            importlib.invalidate_caches()  # to find newly written files

    def _run_notebook(self, name: str, file: str, namespace: dict[str, object]) -> None:
        _Loader("", file, self, is_main=True).run_notebook(name, file, namespace)

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Make the folders importable in the block; blocks may nest and overlap in threads."""
        token = importing.set(self)
        try:
            with _PATCHES.installed(), _SHOWN.showing(self):
                yield
        finally:
            importing.reset(token)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make the folders importable and the session active in the block, and allow its code to register functions."""
        from framework.engine.jvm.call_sites import call_sites_of_files

        seen = seeing(self.spark, self.namespaces)
        with (
            seen,
            accepting(self.functions),
            call_sites_of_files(),
            self.importable(),
            surrounded_by(self.surroundings),
            spark_paths(),
            python_files(self.surroundings),
        ):
            yield

    def surround(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return the function, wrapped in the surroundings of the pipeline's code."""

        @functools.wraps(function)
        def surrounded(*args: P.args, **kwargs: P.kwargs) -> R:
            with self.running():
                return function(*args, **kwargs)

        return surrounded

    def run(self, path: Path, name: str) -> None:
        """Run a file as the module `name`, unless it was imported before; relative imports refer to its package."""
        if str(path) in self.made:
            return
        loader = _Loader(name, str(path), self, is_main=True)
        spec = importlib.util.spec_from_file_location(name, path, loader=loader)
        assert spec is not None
        self._load(spec)

    def has(self, name: str) -> bool:
        """Whether the folders have the top-level module or package of a module name."""
        top = name.partition(".")[0]
        return top in self.named or (top not in _RESERVED and self._spec(top, None) is not None)

    def import_module(self, name: str) -> ModuleType:
        """Return a module of the folders by its absolute name, after importing its packages.

        Raises:
            ModuleNotFoundError: the folders have no such module.
        """
        with self._importing:
            found = self.named.get(name)
            if found is not None:
                return found
            parent, _, own_name = name.rpartition(".")
            package = self.import_module(parent) if parent else None
            if name in self.named:  # its package's code has imported it
                return self.named[name]
            folders = getattr(package, "__path__", ()) if parent else None
            spec = self._spec(name, folders)
            if spec is None:
                reason = f"; {parent!r} is not a package" if parent and not folders else ""
                message = f"No module named {name!r}{reason}"
                raise ModuleNotFoundError(message, name=name)
            module = self._load(spec)
            if package is not None:
                setattr(package, own_name, module)
            return module

    def imported(self, absolute: str, parts: Sequence[str]) -> ModuleType:
        """Return the result of an import statement: the top-level package, or with `from` the module itself.

        Args:
            absolute: the absolute name of the module.
            parts: the names after `from … import`; empty for `import`.

        Raises:
            ModuleNotFoundError: the folders have no such module.
        """
        module = self.import_module(absolute)
        if not parts:
            return self.import_module(absolute.partition(".")[0])
        for part in self._submodules(module, parts):
            submodule = f"{absolute}.{part}"
            try:
                self.import_module(submodule)
            except ModuleNotFoundError as error:
                if error.name != submodule:
                    raise
        return module

    def package_of(self, file: str) -> str | None:
        """Return the package of a file's module; None if it was not loaded."""
        module = self.made.get(file)
        return None if module is None else module.__package__

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module in the folders; a part of Python's finder protocol."""
        del target
        spec = None if fullname.partition(".")[0] in _RESERVED else self._spec(fullname, path)
        return None if spec is None or spec.loader is None else spec

    def hides(self, name: str) -> bool:
        """Whether other modules of this name must be hidden while the pipeline's code runs."""
        return name.partition(".")[0] in self._tops or name in self.named

    def is_own(self, module: ModuleType | None) -> bool:
        """Whether a module was loaded from a file of the folders, or is a namespace package in them."""
        loader = getattr(getattr(module, "__spec__", None), "loader", None)
        if isinstance(loader, _Loader):
            return loader.imports is self
        folders = getattr(module, "__path__", ()) if getattr(module, "__file__", None) is None else ()
        return any(self._holds(str(path)) for path in folders)

    @staticmethod
    def _submodules(module: ModuleType, parts: Sequence[str]) -> Iterator[str]:
        """Return the names of `from … import` that may be submodules of a package."""
        if hasattr(module, "__path__"):
            for part in (*parts, *(getattr(module, "__all__", ()) if "*" in parts else ())):
                if part != "*" and not hasattr(module, part):
                    yield part

    def _load(self, spec: ModuleSpec) -> ModuleType:
        with self._importing:
            module = importlib.util.module_from_spec(spec)
            if isinstance(spec.loader, _Loader):
                spec.loader.exec_module(module)
            else:
                _SHOWN.add(self, spec.name, module)
            return module

    def _spec(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Find a module in the folders, or in the folders of its package, without using `sys.modules`."""
        own_name = name.rpartition(".")[2]
        places = [str(each) for each in self.folders] if path is None else path
        found = PathFinder.find_spec(own_name, places)
        if found is None:
            return None
        if isinstance(found.loader, SourceFileLoader) and found.origin is not None and self._holds(found.origin):
            loader = _Loader(name, found.origin, self)
            return importlib.util.spec_from_file_location(
                name, found.origin, loader=loader, submodule_search_locations=found.submodule_search_locations
            )
        if found.origin is not None:
            return None
        # The locations in `found` would be recomputed from `sys.path`, which another thread may have changed.
        folders = [str(each) for place in places if (each := Path(place, own_name)).is_dir() and self._holds(str(each))]
        if not folders or (path is None and getattr(PathFinder.find_spec(name), "origin", None) is not None):
            return None  # a folder without `__init__.py` is a package only if no module has the name
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = folders
        return spec

    def _holds(self, path: str) -> bool:
        """Whether a path is in one of the folders, but not in packages installed below it, or in hidden folders."""
        for folder in self.folders:
            if Path(path).is_relative_to(folder):
                parts = Path(path).relative_to(folder).parts
                return not any(part.startswith(".") or part in _INSTALLED for part in parts)
        return False


class _Loader(PipelineLoader):
    """Loads a module from a pipeline's file: once, with `spark` as a global, and without a bytecode cache."""

    def __init__(self, name: str, path: str, imports: PipelineImports, *, is_main: bool = False) -> None:
        super().__init__(name, path)
        self.imports = imports
        self._is_main = is_main

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module that was loaded from the file before, or else an empty one."""
        return self.imports.made.get(str(spec.origin)) or PipelineModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Run the file's code unless it has run before; a file that failed raises the same exception again."""
        path = str(self.path)
        if path in self.imports.failed:
            raise self.imports.failed[path]
        _SHOWN.add(self.imports, self.name, module)
        if path in self.imports.made:
            return
        self.imports.made[path] = module
        module.__dict__.update(module_globals(self.imports.spark))
        try:
            super().exec_module(module)
        except NotebookExit:
            return  # the code has exited the notebook
        except BaseException as error:
            self.imports.failed[path] = error
            del self.imports.made[path]
            _SHOWN.remove(self.imports, self.name)
            raise

    def get_code(self, fullname: str) -> CodeType:
        """Compile the current content of the file, of any kind that a pipeline may have."""
        path = self.get_filename(fullname)
        return self._code_of(Path(path), self.get_data(path))

    def run_notebook(self, name: str, file: str, namespace: dict[str, object]) -> None:
        """Run a notebook in the namespace of the calling notebook, as `%run` does.

        Args:
            name: its path relative to the folder of `file`, with or without a suffix; Databricks has none.
            file: the notebook with the command.
            namespace: the names of the calling notebook.

        Raises:
            UserError: MODULE_NOT_FOUND.
        """
        base = Path(file).parent
        paths = [(base / name).resolve(), *((base / f"{name}{suffix}").resolve() for suffix in _OF_NOTEBOOKS)]
        found = next((path for path in paths if path.is_file()), None)
        if found is None:
            raise UserError("MODULE_NOT_FOUND", location=caller_location(), path=name, root=base)
        self.imports.included.add(str(found))
        exec(self._code_of(found, found.read_bytes()), namespace)  # noqa: S102 - the code of the pipeline

    def _code_of(self, path: Path, content: bytes) -> CodeType:
        source = python_source(path, content, self._value_of)
        tree = ast.parse(source, str(path))
        if self._is_main:
            is_notebook = cells_of(path, content.decode(errors="replace")) is not None
            tree = with_main_blocks(tree, is_notebook=is_notebook)
        return self.source_to_code(without_displays(tree, str(path)), str(path))

    def _value_of(self, key: str) -> str | None:
        found: str | None = self.imports.spark.conf.get(key, None)
        return found


def _module_names(folder: Path) -> Iterator[str]:
    """Yield the import names of the folder's own modules and packages."""
    if folder.is_dir():
        for entry in folder.iterdir():
            if entry.suffix == ".py" or (entry / "__init__.py").is_file():
                yield entry.stem


def _importer(namespace: Mapping[str, Any] | None) -> PipelineImports | None:
    """Return the imports of the pipeline whose module has these globals; None for any other module."""
    loader = getattr((namespace or {}).get("__spec__"), "loader", None)
    return loader.imports if isinstance(loader, _Loader) else None


def _import(original: Callable[..., ModuleType]) -> Callable[..., ModuleType]:
    """Return the function behind import statements, extended by the folders of a pipeline for its modules."""

    @functools.wraps(original)
    def call(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> ModuleType:
        imports = _importer(globals)
        package = (globals or {}).get("__package__")
        if imports is None or (level and not package):
            return original(name, globals, locals, fromlist, level)
        absolute = importlib.util.resolve_name("." * level + name, package) if level else name
        if not imports.has(absolute):
            return original(name, globals, locals, fromlist, level)
        return imports.imported(absolute, fromlist or ())

    return call


def _import_module(original: Callable[..., ModuleType]) -> Callable[..., ModuleType]:
    """Return `importlib.import_module`, extended by the folders of a pipeline for its modules."""

    @functools.wraps(original)
    def call(name: str, package: str | None = None) -> ModuleType:
        imports = _importer(sys._getframe(1).f_globals)
        absolute = importlib.util.resolve_name(name, package) if imports is not None else name
        if imports is None or not imports.has(absolute):
            return original(name, package)
        return imports.import_module(absolute)

    return call


_PATCHES = Patches(lambda: [Patch(builtins, "__import__", _import), Patch(importlib, "import_module", _import_module)])


def with_main_blocks(tree: ast.Module, *, is_notebook: bool) -> ast.Module:
    """Return the code of a pipeline's file with main blocks unconditional, if Databricks runs them.

    Args:
        tree: the code. Its module keeps its name, because functions are pickled by it.
        is_notebook: whether the file is a notebook.
    """
    if not is_notebook and not any(_imports_dlt(statement) for statement in ast.walk(tree)):
        return tree
    body = [each for statement in tree.body for each in (_block(statement) or (statement,))]
    return ast.Module(body=body, type_ignores=tree.type_ignores)


def _imports_dlt(statement: ast.AST) -> bool:
    if isinstance(statement, ast.Import):
        return any(alias.name == "dlt" for alias in statement.names)
    return isinstance(statement, ast.ImportFrom) and statement.module == "dlt" and statement.level == 0


def _block(statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements below `if __name__ == "__main__":`; none for any other statement."""
    if not isinstance(statement, ast.If) or not isinstance(statement.test, ast.Compare):
        return []
    compared = statement.test
    sides = {ast.unparse(side) for side in (compared.left, *compared.comparators)}
    is_main = isinstance(compared.ops[0], ast.Eq) and sides == {"__name__", "'__main__'"}
    return statement.body if is_main else []
