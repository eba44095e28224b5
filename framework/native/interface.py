"""The native interface as Databricks documents it: functions, parameters, and their older spellings.

Taken from the public Python reference of `pyspark.pipelines` and the signatures of the `databricks-dlt` stubs,
as of November 2026; `tests/unit/native/test_interface.py` compares them with both if they are installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFunction:
    """A native function and its parameters.

    Args:
        required: the required parameters, in their order.
        optional: the optional parameters.
        decorator: whether it is a decorator.
        decorates: the parameter that receives the decorated function if the decorator may be used without a call.
    """

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    decorator: bool = False
    decorates: str | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """All parameters that may be given by name."""
        return self.required + self.optional


_TABLE = (
    "name",
    "comment",
    "spark_conf",
    "table_properties",
    "path",
    "partition_cols",
    "cluster_by_auto",
    "cluster_by",
    "schema",
    "row_filter",
)
_HISTORY = ("track_history_column_list", "track_history_except_column_list")
_EXPECTATION = NativeFunction(required=("name", "inv"), decorator=True)
_UNIQUE = re.compile(r"[\s(]*UNIQUE\s*\(.*\)[\s)]*", re.IGNORECASE | re.DOTALL)
_WITH_CONDITIONS = frozenset({"create_streaming_table", "create_streaming_live_table", "create_target_table"})
_EXPECTATIONS = NativeFunction(required=("expectations",), decorator=True)

INTERFACE: Mapping[str, NativeFunction] = MappingProxyType(
    {
        "table": NativeFunction(optional=(*_TABLE, "private"), decorator=True, decorates="query_function"),
        "materialized_view": NativeFunction(
            optional=(*_TABLE, "private", "refresh_policy"), decorator=True, decorates="query_function"
        ),
        "temporary_view": NativeFunction(
            optional=("name", "comment", "spark_conf"), decorator=True, decorates="query_function"
        ),
        "create_streaming_table": NativeFunction(
            required=("name",), optional=(*_TABLE[1:], "expect_all", "expect_all_or_drop", "expect_all_or_fail")
        ),
        "append_flow": NativeFunction(
            required=("target",), optional=("name", "once", "spark_conf", "comment"), decorator=True
        ),
        "create_auto_cdc_flow": NativeFunction(
            required=("target", "source", "keys", "sequence_by"),
            optional=(
                "where",
                "ignore_null_updates",
                "ignore_null_updates_column_list",
                "ignore_null_updates_except_column_list",
                "apply_as_deletes",
                "apply_as_truncates",
                "column_list",
                "except_column_list",
                "columns_to_update",
                "stored_as_scd_type",
                *_HISTORY,
                "name",
                "once",
            ),
        ),
        "create_auto_cdc_from_snapshot_flow": NativeFunction(
            required=("target", "source", "keys"), optional=("stored_as_scd_type", *_HISTORY, "once")
        ),
        "create_sink": NativeFunction(required=("name", "format"), optional=("options",)),
        "foreach_batch_sink": NativeFunction(optional=("name",), decorator=True),
        "expect": _EXPECTATION,
        "expect_or_drop": _EXPECTATION,
        "expect_or_fail": _EXPECTATION,
        "expect_all": _EXPECTATIONS,
        "expect_all_or_drop": _EXPECTATIONS,
        "expect_all_or_fail": _EXPECTATIONS,
        "on_event_hook": NativeFunction(
            optional=("max_allowable_consecutive_failures",), decorator=True, decorates="user_event_hook_fn"
        ),
    }
)

# Only `dlt` has these; without it they are reads of the session.
READS: Mapping[str, NativeFunction] = MappingProxyType(
    {"read": NativeFunction(required=("name",)), "read_stream": NativeFunction(required=("name",))}
)

# Older names of the same functions: a native module without the new name has one of these.
OLDER_FUNCTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "materialized_view": ("table",),
        "temporary_view": ("view",),
        "create_streaming_table": ("create_target_table", "create_streaming_live_table"),
        "create_auto_cdc_flow": ("apply_changes",),
        "create_auto_cdc_from_snapshot_flow": ("apply_changes_from_snapshot",),
        "read_stream": ("readStream",),
    }
)
OLDER_PARAMETERS: Mapping[str, str] = MappingProxyType({"name": "flow_name", "private": "temporary"})
_NEWER_PARAMETERS = {older: newer for newer, older in OLDER_PARAMETERS.items()}

# Sluice's flows -> the native functions that replace them: one for the view of the query, one for the flow.
COMPOSED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "snapshot_flow": ("temporary_view", "create_auto_cdc_flow"),
        "auto_cdc_flow": ("temporary_view", "create_auto_cdc_flow"),
    }
)
LOCAL_ONLY = frozenset({"ingest_database"})
"""Functions without a native form: on Databricks, gateways are deployed with bundles."""
VIEW_PARAMETERS = ("spark_conf", "comment")


def native_parameter(name: str) -> str:
    """The newer name of a parameter that has two."""
    return _NEWER_PARAMETERS.get(name, name)


def compares_rows(function: str, condition: object) -> bool:
    """Whether a text in a call is the condition of an expectation that only Sluice checks: `UNIQUE (…)`."""
    has_conditions = function.startswith("expect") or function in _WITH_CONDITIONS
    return has_conditions and isinstance(condition, str) and _UNIQUE.fullmatch(condition) is not None


def is_said(function: str, name: str, value: object) -> bool:
    """Whether to forward an argument: not `format`, and no false `private` or `soft_deletes`, the native defaults."""
    implied = name == "format" and function != "create_sink"
    return not implied and not (native_parameter(name) in ("private", "soft_deletes") and value is False)
