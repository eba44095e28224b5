"""Conditions of what a Databricks workspace has around a module: `sluice.local.yml`, secrets, parameters, `dbutils`."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "LOCAL_FILE_UNREADABLE": Condition(
        "{path} cannot be read: {cause}.", "Correct the path of `--local`, or the permissions of the file."
    ),
    "LOCAL_FILE_INVALID_YAML": Condition("{path} is not valid YAML: {cause}.", "Correct the file."),
    "LOCAL_FILE_UNEXPECTED_FIELD": Condition(
        "`{field}` is not a key of a file such as sluice.local.yml.{hint}",
        "Correct or remove it. The keys are paths, tables, functions, secrets, parameters and runtime; all others are "
        "those of the pipeline spec.",
    ),
    "LOCAL_FUNCTION_MISSING": Condition(
        "`{place}`, which `functions` has for `{name}`, can't be imported: {cause}.",
        "Write the function in a module beside the spec, such as `def mask(text: str) -> str:` in stubs.py for "
        "`stubs.mask`.",
    ),
    "PATH_PREFIX_INVALID": Condition(
        "`{prefix}` in `paths` is not the beginning of a path of a workspace.",
        "Write an absolute path or a URI, such as /Volumes/main/raw/, dbfs:/ or s3://bucket/.",
    ),
    "LOCAL_TABLE_NOT_FOUND": Condition(
        "The table {name} of `tables` has no rows: {reason}.",
        "Correct its entry in sluice.local.yml, such as `{{format: csv, path: data/trips.csv, header: true}}` or "
        "`{{pipeline: ../other}}`.",
    ),
    "SECRET_ENTRY_INVALID": Condition(
        "The secret {scope}/{key} in `secrets` has no valid source.",
        "Write the value, `{{env: VARIABLE}}` or `{{file: PATH}}`.",
    ),
    "SECRET_MISSING": Condition(
        "The secret {key} of the scope {scope} is not known: {reason}.",
        "Set the environment variable {variable}, or add `secrets: {{{scope}: {{{key}: {{env: VARIABLE}}}}}}` to "
        "sluice.local.yml, with the name of a variable that has its value.",
    ),
    "SECRETS_EXPOSED": Condition(
        "{path} has secrets, and is not read: {problem}.", "Let only its user read it: chmod 600 {path}."
    ),
    "WIDGET_NOT_DEFINED": Condition(
        "The parameter `{name}` has no value.",
        "Add `parameters: {{{name}: VALUE}}` to sluice.local.yml, or pass `--param {name}=VALUE`. A module may give a "
        "default with `dbutils.widgets.text`.",
    ),
    "DBUTILS_NOT_AVAILABLE": Condition(
        "`dbutils.{name}` exists on Databricks only.",
        "Remove the call, or skip it where `DATABRICKS_RUNTIME_VERSION` is no environment variable. Here, `dbutils` "
        "has {known}.",
    ),
    "DBUTILS_WRITE_REFUSED": Condition(
        "`dbutils.fs.{name}` writes {path} while modules are loaded without an update.",
        "Run the update: `sluice run` allows it. `sluice validate` and `sluice plan` write nothing.",
    ),
    "DBUTILS_FILE_FAILED": Condition("`dbutils.fs.{name}` failed for {path}: {cause}", "{advice}"),
    "DBUTILS_OUTSIDE_OF_PIPELINE": Condition(
        "`dbutils` is used outside of the code of a pipeline.",
        "Use it in a module, or in a function that the pipeline calls, and not in a thread of its own.",
    ),
    "DBUTILS_TASK_VALUE_MISSING": Condition(
        "The task {task} has set no value `{key}`, because this is no job of Databricks.",
        "Give `debugValue` or `default` to `dbutils.jobs.taskValues.get`.",
    ),
}
