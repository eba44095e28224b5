"""Conditions of names, specs, modules, declarations and the calls inside query functions."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

_CALL = "{function}(): argument `{argument}`"
_SESSION = "`{method}` changes the Spark session, which all flows share."
_TEMP_VIEW = Condition(_SESSION, "Declare the view with `@dp.temporary_view`.")
_UDF = Condition(
    _SESSION,
    "Write the function in Python, and register it with `spark.udf.register`. `spark` is the global of the module.",
)

CONDITIONS: dict[str, Condition] = {
    "SCHEDULES_UNREADABLE": Condition("The file of schedules {path} can't be read: {cause}.", "Check the file."),
    "SCHEDULES_INVALID_YAML": Condition("The file of schedules {path} is not valid YAML: {cause}", "Correct it."),
    "SCHEDULE_INVALID": Condition("{what}: {problem}", "Correct it. No schedule of this file runs until then."),
    "SCHEDULE_NOT_FOUND": Condition(
        "Pipeline {pipeline} has no schedule {schedule!r}.{hint}", "`sluice schedule list` has their names."
    ),
    "ALERTS_UNREADABLE": Condition("The file of alerts {path} can't be read: {cause}.", "Check the file."),
    "ALERTS_INVALID_YAML": Condition("The file of alerts {path} is not valid YAML: {cause}", "Correct it."),
    "ALERTS_INVALID": Condition("{what}: {problem}", "Correct it. No alert of this file is sent until then."),
    "ALERT_NOT_SENT": Condition(
        "The message on channel {channel} can't be sent: {cause}.",
        "Check the channel in alerts.yml and its secrets. It is tried again for a day.",
    ),
    "MAGIC_INVALID": Condition("The arguments of the magic are invalid: {problem}.", "Write {usage}."),
    "CELL_NOT_FOUND": Condition(
        "No cell of the notebook's pipeline has the name {cell}; the names are: {names}.", "Correct the name."
    ),
    "INVALID_NAME": Condition(
        "{name!r} is not a valid dataset name.", "Use `table`, `schema.table` or `catalog.schema.table`."
    ),
    "INVALID_PIPELINE_NAME": Condition(
        "The pipeline name {name!r} is used as a folder name, but refers to a folder outside `.sluice`.",
        "Choose a different name, or set `storage`.",
    ),
    "GRAPH_ELEMENT_DEFINED_OUTSIDE_OF_DECLARATIVE_PIPELINE": Condition(
        "A dataset or flow is declared outside of a pipeline.",
        "Run the module with `sluice run`, or pass it to `Pipeline(modules=[…])`. In a notebook, begin the "
        "cell with `%%sluice` after `%load_ext framework`, or pass a function that contains the declarations.",
    ),
    "INVALID_ARGUMENT.TYPE": Condition(_CALL + " has type {actual}.", "Pass {expected}."),
    "INVALID_ARGUMENT.VALUE": Condition(_CALL + " has the invalid value {value!r}.", "Pass {expected}."),
    "INVALID_ARGUMENT.BOTH": Condition(
        "{function}(): the arguments `{first}` and `{second}` are mutually exclusive.", "Remove one of the two."
    ),
    "INVALID_ARGUMENT.UNKNOWN": Condition("{function}() has no argument `{argument}`.", "{advice}"),
    "INVALID_ARGUMENT.CALL": Condition("{function}(): the arguments are invalid: {reason}.", "{advice}"),
    "INVALID_ARGUMENT.NO_NAME": Condition(
        "{function}() decorates a function without a name.", "Pass `name=` to the decorator."
    ),
    "INVALID_ARGUMENT.EXPRESSION": Condition(
        _CALL + " is not a SQL expression over a single row: {text} ({reason}).",
        "Correct the expression. Put column names with spaces or special characters in backticks.",
    ),
    "INVALID_ARGUMENT.NOT_SQL": Condition(
        _CALL + " cannot be converted to SQL: {reason}.",
        "Use built-in functions and `col(…)`. If the value needs Python, compute it in the query of the source, or "
        "register the function with `spark.udf.register` and call it in a text.",
    ),
    "DECORATOR_ARGUMENT_NOT_CALLABLE": Condition(
        "@{function} decorates a value of type {actual}; expected a function.",
        "Write @{function} without arguments, or pass the arguments by keyword: @{function}(name=…).",
    ),
    "QUERY_FUNCTION_HAS_PARAMETERS": Condition(
        "@{function} decorates {name}, which has required parameters: {parameters}. Query functions are called without "
        "arguments.",
        "Give the parameters default values, for example `def {name}(day=day)`.",
    ),
    "DUPLICATE_EXPECTATION": Condition(
        "The dataset has two expectations named {name}; the other one is at {other}.",
        "Rename one of them. Metrics are recorded by name.",
    ),
    "EXPECTATION_WITHOUT_DATASET": Condition(
        "Expectation {name} decorates a function that does not declare a dataset.",
        "Add `@dp.table`, `@dp.materialized_view` or `@dp.temporary_view` to the function.",
    ),
    "EXPECTATION_ON_FLOW": Condition(
        "Expectation {name} decorates flow {flow}; only datasets can have expectations.",
        "Add it to {target} with `expect_all={{…}}` of `dp.create_streaming_table`.",
    ),
    "DUPLICATE_EVENT_HOOK": Condition("Two event hooks are named {name}.", "Rename one of the functions."),
    "NO_ACTIVE_SESSION": Condition(
        "{function}() is called without an active Spark session.", "Call it inside a query function of a pipeline."
    ),
    "AUTOCDC_MISSING_SOURCE": Condition(
        "AUTO CDC flow {flow} has no `source`.", "Set `source` to the dataset or table that contains the events."
    ),
    "AUTOCDC_MULTIPART_COLUMN_IDENTIFIER": Condition(
        _CALL + " is the multipart identifier {columnName} with the parts {nameParts}.",
        "Use a top-level column of the source. If the column name contains a dot, put it in backticks.",
    ),
    "AUTOCDC_NON_COLUMN_IDENTIFIER": Condition(
        _CALL + " is the expression {expression}; expected a column name.",
        "Use a column name. Compute the expression in the query of the source.",
    ),
    "AUTOCDC_NEEDS_SCD_TYPE": Condition(
        "AUTO CDC flow {flow} is stored as SCD type {actual}, but `{argument}` is only valid for SCD type {needed}.",
        "Remove `{argument}`, or set `stored_as_scd_type={needed}`.",
    ),
    "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION": Condition(
        "`{method}` triggers execution, which is not allowed in a query function.",
        "Remove the call and return the DataFrame. To use a computed result, declare it as a separate dataset.",
    ),
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_RUNTIME_CONF": Condition(
        _SESSION,
        "Set it in `configuration` or `spark_conf` of the pipeline, or in `spark_conf` of the dataset.",
    ),
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_CURRENT_CATALOG": Condition(
        _SESSION, "Set `catalog` in the pipeline spec, or use fully qualified names."
    ),
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_CURRENT_DATABASE": Condition(
        _SESSION, "Set `schema` in the pipeline spec, or use fully qualified names."
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
    "FUNCTION_NAME_BUILT_IN": Condition(
        "A function is registered by the name `{name}`, which Spark has itself: SQL calls Spark's function.",
        "Register the function by another name.",
    ),
    "VARIABLE_DECLARED_TWICE": Condition(
        "The variable `{name}` is declared at {other} with another type or value. All queries have its one value.",
        "Use another name, or declare it once.",
    ),
    "FUNCTION_REGISTERED_TWICE": Condition(
        "The function `{name}` is registered again with another definition; the first one is at {other}. All queries "
        "of the pipeline find it by this name.",
        "Register each definition by a name of its own.",
    ),
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.STOP_SESSION": Condition(
        "`{method}` stops the Spark session, which all flows share.",
        "Remove the call. The session stops when the pipeline ends.",
    ),
    "PIPELINE_SPEC_FILE_NOT_FOUND": Condition(
        "No {names} exists in {folder} or in a folder above it.{hint}",
        "Change to the folder of the pipeline, pass the file with `--spec`, or create a project with `sluice init`.",
    ),
    "PIPELINE_SPEC_FILE_DOES_NOT_EXIST": Condition("{path} cannot be read: {cause}.", "Correct the path."),
    "PIPELINE_SPEC_INVALID_YAML": Condition("{path} is not a valid pipeline spec: {cause}.", "Correct the file."),
    "PIPELINE_SPEC_MISSING_REQUIRED_FIELD": Condition(
        "The pipeline spec {path} does not set the required field `{field}`.", "Add `{field}:`."
    ),
    "PIPELINE_SPEC_UNEXPECTED_FIELD": Condition(
        "`{field}` is not a valid field of a pipeline spec.{hint}", "Correct or remove the field."
    ),
    "PIPELINE_SPEC_FIELD_TYPE": Condition("`{field}` has type {actual}; expected {expected}.", "Correct the value."),
    "PIPELINE_SPEC_SCHEMA_TWICE": Condition(
        "`{first}` and `{second}` both set the default schema, to different values.",
        "Use only `schema`; the other fields are its former names.",
    ),
    "PIPELINE_SPEC_TRIGGER": Condition(
        "`trigger` is invalid. {problem}",
        "Write `trigger: {{cron: {{quartz_cron_schedule: 0 30 2 * * ?, timezone_id: Europe/Oslo}}}}`, or more "
        "schedules in a `schedules.yml` beside this file.",
    ),
    "PIPELINE_SPEC_RUNTIME": Condition(
        "`runtime` is {value!r}, which is not the version of a Databricks runtime.",
        'Write a version such as `runtime: "15.4"`.',
    ),
    "PIPELINE_SPEC_LIBRARY": Condition(
        "{entry} is not a valid library.", "Write `- glob: {{include: folder/**}}` or `- file: {{path: file.py}}`."
    ),
    "MODULE_FAILED": Condition("{file} raised {cause}", "{advice}"),
    "MODULE_NOT_FOUND": Condition("The module {path} does not exist.", "Correct the path. It is relative to {root}."),
    "MODULE_NOT_LOADABLE": Condition(
        "{module!r} is not a module of a pipeline.", "Pass the path of a file, an imported module, or a function."
    ),
    "PIPELINE_UNSUPPORTED_DEFINITIONS_FILE_EXTENSION": Condition(
        "{path} cannot be loaded: its file extension is not supported.",
        "Use {supported} files, or remove the file from `libraries`.",
    ),
    "NOTEBOOK_CELL_UNSUPPORTED": Condition("A cell of the notebook {path} is not run: {cell}", "{advice}"),
    "NOTEBOOK_CELL_PASSED_OVER": Condition(
        "A cell of the notebook {path} is passed over: {cell}",
        "It declares nothing, so leave it as it is. If a query needs what it makes, make it before the update.",
    ),
    "NOTEBOOK_PACKAGES_THERE": Condition(
        "{cell} is passed over. Installed: {installed}.",
        "If a module needs another version, install it in the environment that runs Sluice.",
    ),
    "NOTEBOOK_PACKAGES_MISSING": Condition(
        "The notebook {path} installs packages that this environment does not have: {packages}.",
        "Install them in the environment that runs Sluice: pip install {packages}. The notebook stays as it is.",
    ),
    "STATEMENT_PASSED_OVER": Condition(
        "{statement} only shows something. It is passed over.",
        "Leave it as it is, or delete it. `sluice show` prints the rows of a dataset.",
    ),
    "VIEW_STORED_AS_TABLE": Condition(
        "The rows of the view {view} are stored in each update, as those of a materialized view.",
        "Leave it as it is. To store nothing, write CREATE TEMPORARY VIEW: only the pipeline itself reads such a view.",
    ),
    "NOTEBOOK_UNREADABLE": Condition(
        "The notebook {path} cannot be read: {problem}.",
        "Save it as a Python notebook in version 4 of Jupyter's format, or as a `.py` file.",
    ),
    "PARSE_SYNTAX_ERROR": Condition(
        "Syntax error in a SQL file at {near}: expected {expected}.", "Correct the statement."
    ),
    "SQL_FILE_NOT_UTF8": Condition("The SQL file {path} is not encoded in UTF-8.", "Save it in UTF-8."),
    "SQL_PARAMETER_UNDEFINED": Condition(
        "The parameter `${{{name}}}` has no value.",
        "Add it to `configuration` in the pipeline spec, or write SET {name} = value before the statement.",
    ),
    "PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR": Condition(
        "A SQL file of a pipeline can't have {statement}.", "{advice}"
    ),
    "CREATE_VIEW_COLUMN_ARITY_MISMATCH": Condition(
        "The statement names {named} columns, and its query returns {returned}.",
        "Name each column of the query, or none.",
    ),
    "PIPELINE_WITHOUT_SOURCES": Condition(
        "`libraries` of pipeline {name} matches no file.", "Add modules under {root}, or correct `libraries`."
    ),
    "PIPELINE_SPEC_INVALID_GLOB_PATTERN": Condition(
        "{pattern!r} is not a valid pattern for `libraries`.",
        "Write the path of a file, or of a folder followed by `/**`.",
    ),
}
