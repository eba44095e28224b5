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
    "PATH_PREFIX_INVALID": Condition(
        "`{prefix}` in `paths` is not the beginning of a path of a workspace.",
        "Write an absolute path or a URI, such as /Volumes/main/raw/, dbfs:/ or s3://bucket/.",
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
}
