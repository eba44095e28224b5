"""Advice for exceptions of user code that would not occur on Databricks: names and settings of its runtime.

The loader uses it for modules, and the graph for query functions.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import TYPE_CHECKING

from framework.declare.modules.notebook_source import cell_advice
from framework.declare.workspace.path_map import is_of_workspace
from framework.foundation.ansi_errors import advice_on_types
from framework.foundation.files.file_systems import entry_to_add, missing_file_system
from framework.foundation.nearest import nearest_name

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_OF_MODULES = frozenset({"dbutils", "display", "displayHTML", "getArgument", "sc", "sqlContext"})
_CHARSETS = (
    "Correct the encoding. Or set `spark.sql.legacy.javaCharsets` to `true` in `spark_conf` of the pipeline spec: "
    "Spark then reads every encoding that Java knows."
)
_BY_CONDITION = {
    "INVALID_PARAMETER_VALUE.CHARSET": _CHARSETS,
    "REQUIRES_SINGLE_PART_NAMESPACE": (
        "The catalog of this name does not exist here. For a table, add its name to `tables` in sluice.local.yml, with "
        "a `path`. Write a function of a catalog in Python, and register it with `spark.udf.register`. A module can't "
        "read a dataset of the pipeline while it is loaded: read the table in a query function, or by its path."
    ),
    "TABLE_OR_VIEW_NOT_FOUND": (
        "Add the name of the table with a `path` to `tables` in sluice.local.yml. A module can't read a dataset of the "
        "pipeline while it is loaded: read it in a query function, or by its path."
    ),
}
_WARN = "Use `expect`, which keeps the rows that fail and counts them."
_SECRET = "Give it two literals in a query of SQL, or use `dbutils.secrets.get` in Python."  # noqa: S105 - advice
_FUNCTION = (
    "Correct the name. A function of your own is found if a module of the pipeline registers it with "
    "`spark.udf.register`. One of a catalog is a Python function that `functions` in sluice.local.yml names."
)
_FUNCTIONS = re.compile(
    r"ai_\w+|is_member|is_account_group_member|event_log|cloud_files_state|http_request"
    r"|vector_search|remote_query|read_(?:kinesis|pubsub|pulsar)",
    re.IGNORECASE,
)
_INTERFACES = ("dlt", "pyspark.pipelines", "framework.pipelines")
_UNKNOWN_SOURCE = re.compile(r"Failed to find data source: ([\w.-]*\w)")


def advice_for(error: BaseException) -> str | None:
    """Return the advice for an exception, as a sentence; None if there is no specific advice.

    Args:
        error: an exception of a module or of a query function.
    """
    from pyspark.errors import PySparkException

    from framework.engine.jvm.java_errors import Py4JJavaError

    if isinstance(error, PySparkException):
        return _of_spark(error)
    if isinstance(error, Py4JJavaError):
        return _of_java(str(error.java_exception.toString()))
    if isinstance(error, ValueError) and str(error).startswith("default auth:"):
        return "`databricks.sdk` needs a workspace. Delete its imports: `spark` is a global of each module."
    return _of_python(error)


def _of_java(text: str) -> str | None:
    """Return the advice for a Spark error without an own message, as for `column:path` of a string."""
    if "COLUMN_IS_NOT_VARIANT_TYPE" in text:
        return (
            "`column:path` reads a column of type VARIANT here. For a string with JSON, write "
            "`parse_json(column):path`, or `get_json_object(column, '$.path')`."
        )
    if "[DATA_SOURCE_NOT_FOUND]" in text and "cloudFiles" in text:  # raised in query functions
        return (
            "Read `cloudFiles` in the function of a dataset or flow, or in a function that it calls: elsewhere no "
            "checkpoint says which files are read."
        )
    return missing_file_system(text)


def _of_python(error: BaseException) -> str | None:
    if isinstance(error, SyntaxError):
        return _of_syntax(error)
    if isinstance(error, ImportError):
        return _of_import(error)
    if isinstance(error, AttributeError):
        return _of_attribute(error)
    if isinstance(error, FileNotFoundError) and is_of_workspace(str(error.filename)):
        return entry_to_add(str(error.filename))
    if isinstance(error, NameError) and error.name in _OF_MODULES:
        return (
            f"`{error.name}` is a global of the pipeline's modules. In other code, write "
            f"`from databricks.sdk.runtime import {error.name}`."
        )
    return None


def _of_syntax(error: SyntaxError) -> str | None:
    """Return the advice for notebook cells that were copied without `# MAGIC`."""
    words = (error.text or "").split()
    return cell_advice(words[0]) if words and words[0].startswith("%") else None


def _of_import(error: ImportError) -> str | None:
    if "relative import" in str(error):
        return "A module of a pipeline has no package. Import the other one by its name: `import helpers`."
    if not isinstance(error, ModuleNotFoundError):
        return None
    return (
        f"Install the package that has `{error.name}` in the environment that runs Sluice. A module of your own must "
        "be in the folder of the pipeline spec, beside the module that imports it, or in a folder of `sys.path`."
    )


def _of_attribute(error: AttributeError) -> str | None:
    """Return the advice for functions that the pipeline interface does not have, here or on Databricks."""
    module, name = error.obj, error.name or ""
    if not isinstance(module, ModuleType) or module.__name__ not in _INTERFACES:
        return None
    if name == "expect_or_warn":
        return _WARN
    near = nearest_name(name, [each for each in module.__dict__ if not each.startswith("_")])
    return f"Did you mean `{near}`?" if near else None


def _of_spark(error: PySparkException) -> str | None:
    condition, parameters = error.getCondition(), error.getMessageParameters() or {}
    source = _UNKNOWN_SOURCE.search(str(error))
    if source is not None:
        return _of_source(source[1])
    if condition in _BY_CONDITION:
        return _BY_CONDITION[condition]
    if condition == "SQL_CONF_NOT_FOUND":
        key = parameters.get("sqlConf", "").strip('"')
        return f"Set `{key}` in `configuration` of the pipeline, or give `spark.conf.get` a default."
    name = (parameters.get("routineName") or parameters.get("name") or "").strip("`")
    if condition in {"UNRESOLVED_ROUTINE", "UNRESOLVABLE_TABLE_VALUED_FUNCTION"} and _FUNCTIONS.fullmatch(name):
        return (
            f"The function `{name}` exists on Databricks only. Name a Python function for it under `functions` in "
            "sluice.local.yml, or compute its result in Python."
        )
    if condition == "UNRESOLVED_ROUTINE":
        return _SECRET if name.lower() in {"secret", "try_secret"} else _FUNCTION
    return advice_on_types(condition or "", str(error))


def _of_source(source: str) -> str:
    from pyspark.version import __version__ as spark_version

    artifact = {"kafka": "spark-sql-kafka-0-10", "avro": "spark-avro"}.get(source)
    package = f", such as `org.apache.spark:{artifact}_2.13:{spark_version}`" if artifact else ""
    return (
        f"Add the package of the source `{source}`{package} to `spark.jars.packages` in `spark_conf` of the pipeline. "
        "Sources of Databricks' runtime have none."
    )
