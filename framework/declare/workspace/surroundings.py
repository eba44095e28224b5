"""The surroundings of running pipeline code: its session, its spec, and the state of `dbutils`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from framework.declare.inputs import GivenInputs
from framework.declare.specs import Pairs
from framework.declare.workspace.path_map import PathMap
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RunNotebook = Callable[[str, str, dict[str, object]], None]


class SecretsPort(Protocol):
    """The secrets that code may read; see `framework.declare.workspace.secrets`."""

    def get(self, scope: str, key: str) -> str:
        """Return a secret."""
        ...

    def scopes(self) -> list[str]:
        """Return the names of the scopes."""
        ...

    def keys(self, scope: str) -> list[str]:
        """Return the names of the secrets of a scope."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surroundings:
    """The surroundings of one pipeline's code.

    Args:
        spark: the session of the pipeline.
        root: the folder of the spec; None for a pipeline without one.
        root_path: the folder that modules import from, relative to `root`; None for `root` alone.
        paths: the map of paths.
        secrets: the secrets.
        parameters: the values of parameters: `--param`, the local file, and the configuration.
        run_notebook: runs a notebook, given its path, the calling file, and its namespace.
        inputs: gives the rows of what the code reads; None outside of a sandbox.
        widgets: the parameters that notebooks have defined, with their defaults.
        task_values: the values that the code has set with `dbutils.jobs.taskValues.set`.
        has_file_system: whether Spark has a file system for a scheme, for the schemes checked so far.
    """

    spark: SparkSession
    root: str | None
    root_path: str | None
    paths: PathMap
    secrets: SecretsPort
    parameters: Pairs
    run_notebook: RunNotebook
    inputs: GivenInputs | None = None
    widgets: dict[str, str] = field(default_factory=dict)
    task_values: dict[str, Any] = field(default_factory=dict)
    has_file_system: dict[str, bool] = field(default_factory=dict)


_around: ContextVar[Surroundings | None] = ContextVar("sluice_surroundings", default=None)
_arguments: ContextVar[dict[str, str]] = ContextVar("sluice_notebook_arguments", default={})  # noqa: B039 - never changed
_updating: ContextVar[bool] = ContextVar("sluice_updating", default=False)
_of_notebook: list[Callable[[], Surroundings]] = []
_of_engine: ContextVar[bool] = ContextVar("sluice_reads_of_engine", default=False)
_folder: ContextVar[str | None] = ContextVar("sluice_folder", default=None)


@contextmanager
def loading_from(folder: str) -> Iterator[None]:
    """Also resolve relative paths in the folder of a file, in the block that runs the file."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def loaded_from() -> str | None:
    """Return the folder of the file that is being loaded in this thread; None if there is none."""
    return _folder.get()


@contextmanager
def surrounded_by(surroundings: Surroundings) -> Iterator[None]:
    """Make `dbutils` act for a pipeline, in the block's own thread."""
    tokens = _around.set(surroundings), _of_engine.set(False)
    try:
        yield
    finally:
        _around.reset(tokens[0])
        _of_engine.reset(tokens[1])


@contextmanager
def reads_of_engine() -> Iterator[None]:
    """Make the reads in the block, inside a call of pipeline code, reads of the engine: they name no input."""
    token = _of_engine.set(True)
    try:
        yield
    finally:
        _of_engine.reset(token)


def found_inputs() -> GivenInputs | None:
    """Return what gives the rows of the code's reads in this thread; None outside of a sandbox, and for the engine."""
    around = _around.get()
    return None if around is None or _of_engine.get() else around.inputs


@contextmanager
def given_arguments(arguments: dict[str, str]) -> Iterator[None]:
    """Set the parameters of a notebook for the block, in which another notebook runs it."""
    token = _arguments.set(arguments)
    try:
        yield
    finally:
        _arguments.reset(token)


@contextmanager
def more_arguments(**given: str) -> Iterator[None]:
    """Add parameters for the block, in which a notebook runs another one in its own namespace (`%run`)."""
    with given_arguments({**_arguments.get(), **given}):
        yield


@contextmanager
def updating(*, is_run: bool) -> Iterator[None]:
    """Allow `dbutils.fs` to write in the block if it loads modules for an update, not for a plan or validation."""
    token = _updating.set(is_run)
    try:
        yield
    finally:
        _updating.reset(token)


def is_updating() -> bool:
    """Whether an update is loading modules, or running."""
    return _updating.get()


def found_surroundings() -> Surroundings | None:
    """Return the surroundings of the code that runs in this thread; None if it is not pipeline code."""
    return _around.get()


def surroundings() -> Surroundings:
    """Return the surroundings of the code that runs in this thread.

    Raises:
        UserError: DBUTILS_OUTSIDE_OF_PIPELINE.
    """
    found = _around.get() or (_of_notebook[-1]() if _of_notebook else None)
    if found is None:
        raise UserError("DBUTILS_OUTSIDE_OF_PIPELINE", location=caller_location())
    return found


def use_in_cells(make: Callable[[], Surroundings]) -> None:
    """Let code outside of pipelines, such as the cells of a notebook, use these surroundings from now on."""
    _of_notebook[:] = [make]


def arguments() -> dict[str, str]:
    """Return the parameters with which a notebook was called."""
    return _arguments.get()
