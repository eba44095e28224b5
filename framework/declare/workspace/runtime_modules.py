"""`pyspark.dbutils` and `databricks.sdk.runtime`, which modules import on Databricks; see `shims`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from framework.declare.workspace.dbutils import DBUtils, module_globals
from framework.declare.workspace.surroundings import surroundings

_NAMES = (
    "dbutils", "display", "displayHTML", "getArgument", "sc", "spark", "sql", "sqlContext", "table", "udf",
)  # fmt: skip


class _Runtime(ModuleType):
    """A module whose names are those of the pipeline that imports them."""

    def __getattr__(self, name: str) -> Any:
        if name not in _NAMES:
            raise AttributeError(name)
        spark = surroundings().spark
        if name == "udf":
            from pyspark.sql.functions import udf

            return udf
        return getattr(spark, name) if name in {"sql", "table"} else module_globals(spark)[name]


def runtime_modules() -> dict[str, ModuleType]:
    """Return the modules by their names."""
    of_pyspark, of_sdk = ModuleType("pyspark.dbutils"), _Runtime("databricks.sdk.runtime")
    of_pyspark.__dict__["DBUtils"] = DBUtils
    of_sdk.__dict__["__all__"] = list(_NAMES)
    return {each.__name__: each for each in (of_pyspark, of_sdk)}
