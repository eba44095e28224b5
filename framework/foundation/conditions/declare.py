"""Conditions of names, declarations and the calls inside query functions."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

_CALL = "{function}(): argument `{argument}`"
_TEMP_VIEW = Condition(
    "`{method}` would change the session that all flows share.", "Declare the view with `@dp.temporary_view`."
)
_UDF = Condition(
    "`{method}` would change the session that all flows share.",
    "Use the function itself: wrap it with `pyspark.sql.functions.udf` where it is needed.",
)

CONDITIONS: dict[str, Condition] = {
    "INVALID_NAME": Condition(
        "{name!r} is not a dataset name.", "Use `table`, `schema.table` or `catalog.schema.table`."
    ),
    "INVALID_PIPELINE_NAME": Condition(
        "The pipeline's name {name!r} leads out of the folder `.sluice`, in which its storage would lie.",
        "Choose another name, or set `storage`.",
    ),
    "GRAPH_ELEMENT_DEFINED_OUTSIDE_OF_DECLARATIVE_PIPELINE": Condition(
        "A dataset or flow was declared while no pipeline is being loaded.",
        "Run the module with `sluice run`, or pass it to `Pipeline(modules=[…])`; in a notebook pass a function.",
    ),
    "INVALID_ARGUMENT.TYPE": Condition(_CALL + " has type {actual}.", "Give {expected}."),
    "INVALID_ARGUMENT.VALUE": Condition(_CALL + " is {value!r}.", "Give {expected}."),
    "INVALID_ARGUMENT.BOTH": Condition("{function}() has both `{first}` and `{second}`.", "Give one of the two."),
    "INVALID_ARGUMENT.UNKNOWN": Condition("{function}() has no argument `{argument}`.", "{advice}"),
    "INVALID_ARGUMENT.CALL": Condition("{function}() can't be called like this: {reason}.", "{advice}"),
    "INVALID_ARGUMENT.NO_NAME": Condition(
        "{function}() decorates a function that has no name.", "Pass `name=` to the decorator."
    ),
    "INVALID_ARGUMENT.EXPRESSION": Condition(
        _CALL + " is no SQL expression over one row: {text} ({reason}).",
        "Correct it; names with spaces or signs go in backticks.",
    ),
    "INVALID_ARGUMENT.NOT_SQL": Condition(
        _CALL + " can't be written as SQL: {reason}.",
        "Use built-in functions and `col(…)`; compute what needs Python in the source's query.",
    ),
    "DECORATOR_ARGUMENT_NOT_CALLABLE": Condition(
        "@{function} decorates a value of type {actual}, not a function.",
        "Write @{function} without arguments, or pass arguments by keyword: @{function}(name=…).",
    ),
    "QUERY_FUNCTION_HAS_PARAMETERS": Condition(
        "@{function} decorates {name}, which needs arguments: {parameters}.",
        "Give them defaults, as in `def {name}(day=day)`: query functions are called without arguments.",
    ),
    "DUPLICATE_EXPECTATION": Condition(
        "The dataset has two expectations named {name}; the other is at {other}.",
        "Rename one: they are counted by name.",
    ),
    "EXPECTATION_WITHOUT_DATASET": Condition(
        "Expectation {name} decorates a function that is no dataset.",
        "Add `@dp.table`, `@dp.materialized_view` or `@dp.temporary_view` to the function.",
    ),
    "EXPECTATION_ON_FLOW": Condition(
        "Expectation {name} decorates flow {flow}; expectations belong to datasets.",
        "Give it to {target}, as `expect_all={{…}}` of `dp.create_streaming_table`.",
    ),
    "DUPLICATE_EVENT_HOOK": Condition("Two event hooks are named {name}.", "Rename one of the functions."),
    "NO_ACTIVE_SESSION": Condition(
        "{function}() was called without a Spark session.", "Call it inside a query function of a pipeline."
    ),
    "AUTOCDC_MISSING_SOURCE": Condition(
        "AUTO CDC flow {flow} has no `source`.", "Give the dataset or table that the events come from."
    ),
    "AUTOCDC_MULTIPART_COLUMN_IDENTIFIER": Condition(
        _CALL + " is {columnName}, which has the parts {nameParts}.",
        "Name a column of the source itself; a dot that is part of its name goes in backticks.",
    ),
    "AUTOCDC_NON_COLUMN_IDENTIFIER": Condition(
        _CALL + " is the expression {expression}.", "Name a column; compute the expression in the source's query."
    ),
    "AUTOCDC_NEEDS_SCD_TYPE": Condition(
        "AUTO CDC flow {flow} is stored as SCD type {actual}, and `{argument}` is for type {needed} only.",
        "Leave `{argument}` out, or set `stored_as_scd_type={needed}`.",
    ),
    "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION": Condition(
        "`{method}` runs a query, and a query function may only describe one.",
        "Return the DataFrame without it; what must be computed first belongs in a dataset of its own.",
    ),
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_RUNTIME_CONF": Condition(
        "`{method}` would change the session that all flows share.",
        "Set it in the pipeline's `configuration` or `spark_conf`, or in the `spark_conf` of the dataset.",
    ),
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_CURRENT_CATALOG": Condition(
        "`{method}` would change the session that all flows share.",
        "Set `catalog` in the pipeline's spec, or name datasets in full.",
    ),
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_CURRENT_DATABASE": Condition(
        "`{method}` would change the session that all flows share.",
        "Set `schema` in the pipeline's spec, or name datasets in full.",
    ),
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.CREATE_TEMP_VIEW": _TEMP_VIEW,
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.CREATE_OR_REPLACE_TEMP_VIEW": _TEMP_VIEW,
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.CREATE_GLOBAL_TEMP_VIEW": _TEMP_VIEW,
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.CREATE_OR_REPLACE_GLOBAL_TEMP_VIEW": _TEMP_VIEW,
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.DROP_TEMP_VIEW": _TEMP_VIEW,
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.DROP_GLOBAL_TEMP_VIEW": _TEMP_VIEW,
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.REGISTER_UDF": _UDF,
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.REGISTER_JAVA_UDF": _UDF,
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.REGISTER_JAVA_UDAF": _UDF,
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.STOP_SESSION": Condition(
        "`{method}` would end the session that all flows share.", "Remove it: the pipeline ends its session itself."
    ),
}
