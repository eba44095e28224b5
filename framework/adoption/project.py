"""The files of a pipeline that exists, and what they need of the workspace."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from importlib.machinery import PathFinder
from pathlib import Path

from framework.adoption.code_reader import CodeReading, read_code
from framework.adoption.needs import Need, NeedKind, each_once
from framework.adoption.texts import PLACEHOLDER
from framework.declare.modules.loader import library_files
from framework.declare.modules.notebook_source import read_source
from framework.declare.pipeline_spec import PipelineSpec
from framework.declare.workspace.secrets import secrets_in_settings
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName

SUFFIXES = (".py", ".sql", ".ipynb")
"""The suffixes of files that may declare datasets."""

_SKIPPED = frozenset(
    {"__pycache__", "build", "dist", "node_modules", "site-packages", "spark-warehouse", "test", "tests"}
)
_NOTEBOOK = "-- Databricks notebook source"
_RUN = re.compile(r"__loader__\.run_notebook\('((?:[^'\\]|\\.)*)'")
_OF_PIPELINES = re.compile(
    r"\b(?:LIVE|STREAM|STREAMING|MATERIALIZED|EXPECT|AUTO\s+CDC|APPLY\s+CHANGES|dlt|pipelines)\b", re.IGNORECASE
)
"""Words of which files of pipelines have one, and notebooks for looking at tables, which may create views, none."""
_REFUSED = "PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR"
_OURS = sys.stdlib_module_names | {"databricks", "delta", "dlt", "framework", "py4j", "pyspark"}
"""Modules that each pipeline has, and those that a folder of the pipeline can't replace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A file of a pipeline.

    Args:
        path: the file.
        reading: what was read in it.
        runs: the notebooks that it runs, as it names them.
    """

    path: Path
    reading: CodeReading
    runs: tuple[str, ...]


def read_module(path: Path, configuration: Mapping[str, str]) -> Module:
    """Read a file: Python, SQL, or a notebook.

    Args:
        path: the file.
        configuration: the values of the pipeline's parameters, as far as they are known.

    Raises:
        UserError: NOTEBOOK_UNREADABLE, SQL_FILE_NOT_UTF8; ADOPTION_MODULE_UNREADABLE for Python with a syntax error.
    """
    asked: list[str] = []

    def value_of(key: str) -> str:
        asked.append(key)
        return configuration.get(key, PLACEHOLDER)

    location = SourceLocation(file=str(path), line=1)
    content = path.read_bytes()
    code, faults = read_source(path, content, value_of)
    text = code.decode("utf-8-sig", errors="replace")
    try:
        reading = read_code(path, text, configuration)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        where = SourceLocation(file=str(path), line=line)
        raise UserError("ADOPTION_MODULE_UNREADABLE", location=where, path=path, cause=str(error)) from None
    parameters = [Need(kind=NeedKind.PARAMETER, name=key, location=location) for key in asked]
    needs = (*reading.needs, *parameters, *_asked_packages(faults))
    runs = tuple(_RUN.findall(text))
    if runs and reading.not_imported is not None:  # a notebook that it runs imports the interface for it
        reading = replace(reading, declares=True, not_imported=None)
    if reading.declares and _only_has_views(path, content.decode("utf-8", errors="replace"), faults):
        reading = replace(reading, declares=False, datasets=frozenset())
    return Module(path=path, reading=replace(reading, needs=needs), runs=runs)


def _only_has_views(path: Path, text: str, faults: Iterable[SluiceError]) -> bool:
    """Whether a file creates views for those who look at tables, as a notebook or beside what no pipeline can have."""
    is_script = path.suffix == ".sql" and not text.lstrip("\ufeff").startswith(_NOTEBOOK)
    is_refused = any(each.condition == _REFUSED for each in faults)
    return not _OF_PIPELINES.search(text) and (is_refused or not is_script)


def sources(folder: Path) -> list[Path]:
    """Return the files below a folder that may be of a pipeline, in their order; no tests and no hidden files."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in SUFFIXES
        and path.is_file()
        and not any(part in _SKIPPED or part.startswith(".") for part in path.relative_to(folder).parts)
        and not path.name.startswith(("test_", "conftest."))
    ]


def pipeline_needs(spec: PipelineSpec, root: Path) -> tuple[tuple[Need, ...], tuple[SluiceError, ...]]:
    """Return what the code of a pipeline needs and neither the pipeline nor this machine has, and files not read.

    Args:
        spec: its spec.
        root: the folder that its libraries are relative to.

    Raises:
        UserError: MODULE_NOT_FOUND, PIPELINE_SPEC_INVALID_GLOB_PATTERN for a library.
    """
    configuration = dict(spec.configuration)
    waiting, modules, faults = library_files(spec, root, SUFFIXES), dict[Path, Module](), list[SluiceError]()
    seen = set(waiting)
    while waiting:
        path = waiting.pop(0)
        try:
            module = modules[path] = read_module(path, configuration)
        except UserError as error:
            faults.append(error)
            continue
        for other in _used(module, _folders(spec, root, module)):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    own = {_full(name, spec) for module in modules.values() for name in module.reading.datasets}
    needs = [
        need
        for module in modules.values()
        for need in (*module.reading.needs, *_imports(module, _folders(spec, root, module)))
    ]
    needs += _of_settings(spec)
    return each_once(need for need in needs if not _is_known(need, spec, own)), tuple(faults)


def _of_settings(spec: PipelineSpec) -> Iterator[Need]:
    """Yield the secrets that the settings of a spec refer to."""
    if spec.file is not None:
        for scope, key, location in secrets_in_settings((*spec.spark_conf, *spec.configuration), spec.file):
            yield Need(kind=NeedKind.SECRET, name=f"{scope}/{key}", location=location)


def namespace_of(modules: Iterable[Module]) -> tuple[str | None, str | None]:
    """Return the catalog and the schema by which the modules of a pipeline name its own datasets most often.

    Where a dataset would then depend on itself, the names belong to other tables, such as the sources of tables that
    keep their names.
    """
    modules = [*modules]
    datasets = {name for module in modules for name in module.reading.datasets}
    tables = [
        need.name.split(".") for module in modules for need in module.reading.needs if need.kind is NeedKind.TABLE
    ]
    counted = Counter((parts[0] if len(parts) == 3 else None, parts[-2]) for parts in tables if parts[-1] in datasets)
    reads = {read for module in modules for read in module.reading.reads}
    chosen = (namespace for namespace, _ in counted.most_common() if not _has_cycle(reads, namespace))
    return next(chosen, (None, None))


def _has_cycle(reads: Iterable[tuple[str, str]], namespace: tuple[str | None, str]) -> bool:
    """Whether a dataset depends on itself if the pipeline has this catalog and schema."""
    prefix = ".".join(part for part in namespace if part is not None).lower() + "."
    sources: dict[str, set[str]] = {}
    for dataset, table in reads:
        name = dataset.lower().removeprefix(prefix)
        sources.setdefault(name, set()).add(table.lower().removeprefix("live.").removeprefix(prefix))
    try:
        TopologicalSorter(sources).prepare()
    except CycleError:
        return True
    return False


def root_of_imports(modules: Iterable[Module], folder: Path) -> Path:
    """Return the folder below `folder` from which the modules of a pipeline import most of their own modules."""
    counted = Counter[Path]()
    for module in modules:
        for name, _ in module.reading.imports:
            parents = [each for each in module.path.parents if each.is_relative_to(folder)]
            folders = [*parents[1:], *searched_folders(module, folder)]
            counted.update([each for each in folders if [*_file_of(name, [each])] or _is_folder_of(name, each)][:1])
    return counted.most_common(1)[0][0] if counted else folder


def imported_files(module: Module, folder: Path) -> Iterator[Path]:
    """Yield the files that a module imports from its folder, from one between it and `folder`, or by `sys.path`."""
    parents = [each for each in module.path.parents if each.is_relative_to(folder)]
    for name, _ in module.reading.imports:
        yield from _file_of(name, [*parents, *searched_folders(module, folder)])


def searched_folders(module: Module, folder: Path) -> Iterator[Path]:
    """Yield the folders below `folder` that a module adds to `sys.path`, also by their paths in a workspace.

    Of such a path, such as `/Workspace/Repos/me/project/lib`, the longest end that is a folder here is taken.
    """
    for text in module.reading.searched:
        parts = [part for part in text.split("/") if part not in {"", "."}]
        beside = (module.path.parent / text).resolve()
        ends = (folder.joinpath(*parts[start:]) for start in range(len(parts)))
        found = beside if ".." in parts else next((each for each in ends if each != folder and each.is_dir()), None)
        if found is not None and found.resolve().is_relative_to(folder.resolve()):
            yield found


def _is_folder_of(name: str, folder: Path) -> bool:
    """Whether a folder has a package of this name, without `__init__.py`."""
    return name.partition(".")[0] not in _OURS and (folder / Path(*name.split("."))).is_dir()


def _is_known(need: Need, spec: PipelineSpec, own: set[str]) -> bool:
    if need.kind is NeedKind.TABLE:
        return PLACEHOLDER in need.name or "" in need.name.split(".") or _full(need.name, spec) in own
    return need.kind is NeedKind.PARAMETER and need.name in dict(spec.configuration)


def _full(name: str, spec: PipelineSpec) -> str:
    try:
        return str(QualifiedName.parse(name, catalog=spec.catalog, schema=spec.schema))
    except UserError:
        return name


def _folders(spec: PipelineSpec, root: Path, module: Module) -> list[Path]:
    """The folders that a module of a pipeline is imported from, beside its own."""
    base = [] if spec.root_path is None else [(root / spec.root_path).resolve()]
    return [root, *base, *searched_folders(module, root)]


def _used(module: Module, folders: list[Path]) -> Iterator[Path]:
    """Yield the files of the pipeline that a module imports or runs."""
    for name in module.runs:
        base = module.path.parent / name
        yield from (found for end in ("", *SUFFIXES) if (found := base.with_name(base.name + end)).is_file())
    for name, _ in module.reading.imports:
        yield from _file_of(name, [*folders, module.path.parent])


def _file_of(module: str, folders: list[Path]) -> Iterator[Path]:
    """Yield the file of a module in one of the folders, if there is one."""
    relative = Path(*module.split("."))
    for folder in folders:
        for path in (folder / relative.with_suffix(".py"), folder / relative / "__init__.py"):
            if path.is_file():
                yield path.resolve()
                return


def _imports(module: Module, folders: list[Path]) -> Iterator[Need]:
    """Yield the packages of a module's imports that are neither installed nor in a folder of the pipeline."""
    for name, location in module.reading.imports:
        top = name.partition(".")[0]
        searched = [*sys.path, *(str(folder) for folder in (*folders, module.path.parent))]
        if top not in _OURS and PathFinder.find_spec(top, searched) is None:
            yield Need(kind=NeedKind.PACKAGE, name=top, location=location)


def _asked_packages(faults: Iterable[SluiceError]) -> Iterator[Need]:
    for fault in faults:
        if fault.condition == "NOTEBOOK_PACKAGES_MISSING" and fault.location is not None:
            for name in shlex.split(str(fault.fields["packages"])):
                yield Need(kind=NeedKind.PACKAGE, name=name, location=fault.location)
