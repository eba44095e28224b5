"""`dbutils` on any machine: one object, which acts for the pipeline whose code calls it."""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from framework.declare.workspace.dbutils_files import Files
from framework.declare.workspace.refusals import Part
from framework.declare.workspace.surroundings import arguments, given_arguments, surroundings
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location


class NotebookExit(BaseException):
    """The end of a notebook by `dbutils.notebook.exit`; not an error, and not caught by `except Exception`.

    Args:
        value: the value that the notebook returns.
    """

    def __init__(self, value: str) -> None:
        self.value = value
        super().__init__(value)

    def _render_traceback_(self) -> list[str]:
        """Return the line that a notebook cell prints instead of a traceback; called by IPython."""
        return [f"Notebook exited: {self.value}"]


class SecretMetadata(NamedTuple):
    """A secret of a scope."""

    key: str


class SecretScope(NamedTuple):
    """A scope of secrets."""

    name: str

    def getName(self) -> str:  # noqa: N802 - Databricks' name
        """Return its name."""
        return self.name


class _Secrets(Part):
    """`dbutils.secrets`."""

    def get(self, scope: str, key: str) -> str:
        """Return a secret, which all texts that leave the process hide."""
        return surroundings().secrets.get(scope, key)

    def getBytes(self, scope: str, key: str) -> bytes:  # noqa: N802 - Databricks' name
        """Return a secret as bytes."""
        return self.get(scope, key).encode("utf-8")

    def list(self, scope: str) -> list[SecretMetadata]:
        """Return the secrets of a scope in the local file and `secrets.yml`."""
        return [SecretMetadata(key) for key in surroundings().secrets.keys(scope)]

    def listScopes(self) -> Any:  # noqa: N802 - Databricks' name
        """Return the scopes in the local file and `secrets.yml`."""
        return [SecretScope(name) for name in surroundings().secrets.scopes()]


class _Widgets(Part):
    """`dbutils.widgets`: parameters of the pipeline."""

    def text(self, name: str, defaultValue: str = "", label: str | None = None) -> None:  # noqa: N803 - Databricks' name
        """Define a parameter with a default."""
        del label
        surroundings().widgets[name] = str(defaultValue)

    def dropdown(self, name: str, defaultValue: str, choices: Any = (), label: str | None = None) -> None:  # noqa: N803 - Databricks' name
        """Define a parameter with a default."""
        del choices
        self.text(name, defaultValue, label)

    combobox = dropdown
    multiselect = dropdown

    def get(self, name: str) -> str:
        """Return a parameter from the notebook call, `--param`, the local file, the configuration, or its default.

        Raises:
            UserError: WIDGET_NOT_DEFINED.
        """
        around = surroundings()
        for values in (arguments(), dict(around.parameters), around.widgets):
            if name in values:
                return values[name]
        raise UserError("WIDGET_NOT_DEFINED", location=caller_location(), name=name)

    def getAll(self) -> dict[str, str]:  # noqa: N802 - Databricks' name
        """Return the parameters that notebooks have defined, and the parameters of the notebook call."""
        return {name: self.get(name) for name in {**surroundings().widgets, **arguments()}}

    def getArgument(self, name: str, default: str | None = None) -> str:  # noqa: N802 - Databricks' name
        """Return a parameter, or the default."""
        try:
            return self.get(name)
        except UserError:
            if default is None:
                raise
            return default

    def remove(self, name: str) -> None:
        """Remove the definition of a parameter."""
        surroundings().widgets.pop(name, None)

    def removeAll(self) -> None:  # noqa: N802 - Databricks' name
        """Remove the definitions of all parameters."""
        surroundings().widgets.clear()


class _Option:
    """A value of the notebook's context, like Scala's `Option`."""

    def __init__(self, value: str | None) -> None:
        self._value = value

    def get(self) -> str | None:
        """Return the value."""
        return self._value

    def getOrElse(self, default: Any) -> Any:  # noqa: N802 - Scala's name
        """Return the value, or a default if there is none."""
        return default if self._value is None else self._value

    def isDefined(self) -> bool:  # noqa: N802 - Scala's name
        """Whether there is a value."""
        return self._value is not None


class _Tags(Part):
    """The tags of a notebook's context."""

    def __init__(self, tags: Mapping[str, str]) -> None:
        super().__init__("notebook.getContext().tags().")
        self._tags = tags

    def get(self, name: str) -> _Option:
        """Return a tag."""
        return _Option(self._tags.get(name))


class _Context(Part):
    """The context of a notebook: its path and its user."""

    def __init__(self) -> None:
        super().__init__("notebook.getContext().")
        location = caller_location()
        self._path = None if location is None else str(Path(location.file).with_suffix(""))

    def notebookPath(self) -> _Option:  # noqa: N802 - Databricks' name
        """Return the path of the file, without its suffix."""
        return _Option(self._path)

    def userName(self) -> _Option:  # noqa: N802 - Databricks' name
        """Return the user of the process."""
        return _Option(getpass.getuser())

    def currentRunId(self) -> _Option:  # noqa: N802 - Databricks' name
        """Return an empty option, because there is no job."""
        return _Option(None)

    def jobId(self) -> _Option:  # noqa: N802 - Databricks' name
        """Return an empty option, because there is no job."""
        return _Option(None)

    def tags(self) -> _Tags:
        """Return the tags."""
        return _Tags({"user": getpass.getuser()})

    def toJson(self) -> str:  # noqa: N802 - Databricks' name
        """Return path and user as JSON."""
        tags = {"user": getpass.getuser()}
        return json.dumps({"extraContext": {"notebook_path": self._path}, "tags": tags, "currentRunId": None})

    safeToJson = toJson  # noqa: N815 - Databricks' name


class _Notebook(Part):
    """`dbutils.notebook`."""

    @property
    def entry_point(self) -> _Notebook:
        """The access to the context that many notebooks use: `entry_point.getDbutils().notebook().getContext()`."""
        return self

    def getDbutils(self) -> _Notebook:  # noqa: N802 - Databricks' name
        """Return itself."""
        return self

    def notebook(self) -> _Notebook:
        """Return itself."""
        return self

    def getContext(self) -> _Context:  # noqa: N802 - Databricks' name
        """Return the context of the calling file."""
        return _Context()

    def run(self, path: str, timeout_seconds: int = 0, arguments: Mapping[str, object] | None = None) -> str:
        """Run another notebook in this session, with its own parameters; return its exit value."""
        del timeout_seconds
        around, location = surroundings(), caller_location()
        given = {str(name): str(value) for name, value in (arguments or {}).items()}
        file = str(location.file) if location is not None else ""
        with given_arguments(given):
            try:
                around.run_notebook(path, file, {"__name__": "__main__", **module_globals(around.spark)})
            except NotebookExit as end:
                return end.value
        return ""

    def exit(self, value: object = "") -> NoReturn:
        """End the notebook."""
        raise NotebookExit(str(value))


class _TaskValues(Part):
    """`dbutils.jobs.taskValues`: values of one run of the modules."""

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        surroundings().task_values[key] = value

    def get(self, taskKey: str, key: str, default: Any = None, debugValue: Any = None) -> Any:  # noqa: N803 - Databricks' names
        """Return the value for use outside of jobs, a stored value, or the default.

        Raises:
            UserError: DBUTILS_TASK_VALUE_MISSING.
        """
        found = debugValue if debugValue is not None else surroundings().task_values.get(key, default)
        if found is None:
            raise UserError("DBUTILS_TASK_VALUE_MISSING", location=caller_location(), task=taskKey, key=key)
        return found


class _Jobs(Part):
    """`dbutils.jobs`."""

    taskValues = _TaskValues("jobs.taskValues.")  # noqa: N815 - Databricks' name


class _Data(Part):
    """`dbutils.data`."""

    def summarize(self, df: Any, precise: bool = False) -> None:  # noqa: FBT001, FBT002 - Databricks' signature
        """Do nothing; on Databricks, it shows statistics of the rows."""


class _Library(Part):
    """`dbutils.library`."""

    def restartPython(self) -> None:  # noqa: N802 - Databricks' name
        """Do nothing; on Databricks, it restarts Python after a package was installed."""


class DBUtils(Part):
    """`dbutils`, also `DBUtils(spark)` of `pyspark.dbutils`."""

    def __init__(self, spark: object = None, shell: object = None) -> None:
        del spark, shell
        super().__init__("")

    data = _Data("data.")
    fs = Files()
    jobs = _Jobs("jobs.")
    library = _Library("library.")
    notebook = _Notebook("notebook.")
    secrets = _Secrets("secrets.")
    widgets = _Widgets("widgets.")


DBUTILS = DBUtils()
"""The object that modules see."""


def display(*_: object, **__: object) -> None:
    """Do nothing; on Databricks, it shows a table. `sluice show` prints the rows of a dataset."""


def module_globals(spark: Any) -> dict[str, object]:
    """Return the globals of each module and notebook, including the session of its pipeline."""
    return {
        "spark": spark,
        "dbutils": DBUTILS,
        "display": display,
        "displayHTML": display,
        "sc": getattr(spark, "sparkContext", None),
        "sqlContext": spark,
        "getArgument": DBUTILS.widgets.getArgument,
    }
