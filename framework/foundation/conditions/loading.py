"""Conditions of the pipeline spec and of the loading of modules."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "PIPELINE_SPEC_FILE_NOT_FOUND": Condition(
        "There is no {names} in {folder} or a folder above it.",
        "Change to the pipeline's folder, name the file with `--spec`, or begin one with `sluice init`.",
    ),
    "PIPELINE_SPEC_FILE_DOES_NOT_EXIST": Condition("{path} can't be read: {cause}.", "Correct the path."),
    "PIPELINE_SPEC_INVALID_YAML": Condition(
        "{path} is no YAML that a pipeline can be read from: {cause}.", "Correct it."
    ),
    "PIPELINE_SPEC_MISSING_REQUIRED_FIELD": Condition("{path} has no `{field}`.", "Add `{field}:`."),
    "PIPELINE_SPEC_UNEXPECTED_FIELD": Condition(
        "`{field}` is no key of a pipeline spec.{hint}", "Correct or remove it."
    ),
    "PIPELINE_SPEC_FIELD_TYPE": Condition("`{field}` is {actual} and should be {expected}.", "Correct its value."),
    "PIPELINE_SPEC_SCHEMA_TWICE": Condition(
        "`{first}` and `{second}` both name the default schema, and differ.",
        "Keep `schema`; the others are its older names.",
    ),
    "PIPELINE_SPEC_LIBRARY": Condition(
        "{entry} is no library.", "Write `- glob: {{include: folder/**}}` or `- file: {{path: file.py}}`."
    ),
    "MODULE_FAILED": Condition("{file} raised {cause}", "Correct the module."),
    "MODULE_NOT_FOUND": Condition(
        "The pipeline's libraries name {path}, which does not exist.", "Correct the path; it is relative to {root}."
    ),
    "MODULE_NOT_LOADABLE": Condition(
        "{module!r} is no module of a pipeline.", "Pass a path to a file, an imported module, or a function."
    ),
    "PIPELINE_UNSUPPORTED_DEFINITIONS_FILE_EXTENSION": Condition(
        "{path} is not a kind of file that a pipeline is made of: {reason}.", "Use {supported} files, or leave it out."
    ),
    "PIPELINE_WITHOUT_SOURCES": Condition(
        "The libraries of pipeline {name} match no file.", "Put modules under {root}, or correct `libraries`."
    ),
    "PIPELINE_SPEC_INVALID_GLOB_PATTERN": Condition(
        "{pattern!r} is not a pattern that `libraries` take.", "Name a file, or a folder followed by `/**`."
    ),
}
