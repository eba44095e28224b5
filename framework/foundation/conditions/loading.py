"""Conditions of the pipeline spec and of the loading of modules."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "PIPELINE_SPEC_FILE_NOT_FOUND": Condition(
        "No {names} exists in {folder} or in a folder above it.",
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
    "PIPELINE_SPEC_LIBRARY": Condition(
        "{entry} is not a valid library.", "Write `- glob: {{include: folder/**}}` or `- file: {{path: file.py}}`."
    ),
    "MODULE_FAILED": Condition("{file} raised {cause}", "Correct the module."),
    "MODULE_NOT_FOUND": Condition("The module {path} does not exist.", "Correct the path. It is relative to {root}."),
    "MODULE_NOT_LOADABLE": Condition(
        "{module!r} is not a module of a pipeline.", "Pass the path of a file, an imported module, or a function."
    ),
    "PIPELINE_UNSUPPORTED_DEFINITIONS_FILE_EXTENSION": Condition(
        "{path} cannot be loaded: {reason}.", "Use {supported} files, or remove the file from `libraries`."
    ),
    "PIPELINE_WITHOUT_SOURCES": Condition(
        "`libraries` of pipeline {name} matches no file.", "Add modules under {root}, or correct `libraries`."
    ),
    "PIPELINE_SPEC_INVALID_GLOB_PATTERN": Condition(
        "{pattern!r} is not a valid pattern for `libraries`.",
        "Write the path of a file, or of a folder followed by `/**`.",
    ),
}
