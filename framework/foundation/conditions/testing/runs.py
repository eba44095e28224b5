"""Conditions of test files in YAML, and of `sluice test`."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "TEST_FILE_INVALID": Condition("The test file has {count} error(s). None of its tests ran.", ""),
    "TEST_FILE_UNREADABLE": Condition("{path} can't be read: {cause}.", "Correct the path, or the file's encoding."),
    "TEST_FILE_INVALID_YAML": Condition("{path} is not valid YAML: {cause}.", "Correct this line."),
    "TEST_FILE_UNEXPECTED_KEY": Condition(
        "{where} has no key {key}.{hint}", "Use one of {known}. docs/testing.md describes them."
    ),
    "TEST_FILE_MISSING_KEY": Condition("{where} needs {key}.", "Add it. docs/testing.md has the table of keys."),
    "TEST_FILE_INVALID_VALUE": Condition(
        "{key} must be {expected}, but is {found}.", "Correct the value. docs/testing.md has the table of keys."
    ),
    "TEST_FILE_UNKNOWN_VARIABLE": Condition(
        "The configuration of pipeline {pipeline} has no entry {variable}, which {text!r} refers to.{hint}",
        "Correct the name, or add it to `configuration` of the pipeline's spec, or to `parameters` of the test.",
    ),
    "TEST_FILE_MODEL_NOT_FOUND": Condition(
        "{model} declares no dataset of pipeline {pipeline}{more}.{hint}",
        "Name a dataset, or a file of the pipeline's libraries, relative to the test file.",
    ),
    "TEST_FILE_MODEL_AMBIGUOUS": Condition(
        "{model} declares several datasets: {datasets}.", "Name one of them with the key callable, or as the model."
    ),
    "DATABRICKS_TEST_SESSION": Condition(
        "`TestPipeline.run` got a session that is not that of the fixture test_spark.",
        "Make the fixture an argument of the test, and pass it on.",
    ),
    "DATABRICKS_TEST_TABLE_CREATED": Condition(
        "The run selects {table}, which the test has created itself.",
        "Leave it out of the set, and the other tables read the rows of the test. Or do not create it.",
    ),
    "PYTEST_NOT_INSTALLED": Condition(
        "`sluice test` runs the tests with {package}, which is not installed in this environment.",
        "Install it with `pip install 'sluice-spark[test]'`.",
    ),
    "TESTS_NOT_FOUND": Condition(
        "`pytest{selection}` found no test.",
        "Correct the paths and the options. Tests are functions `test_...` in files `test_*.py`, and files "
        "`*.unit_tests.yml`; docs/testing.md begins with the first one.",
    ),
    "TEST_RECORD_NOT_A_TABLE": Condition(
        "{dataset} is not stored as a table, so it has no rows to record.", "Record a dataset that reads it."
    ),
    "TEST_RECORD_INPUT_UNREADABLE": Condition(
        "{dataset} reads {source}, whose rows are not recorded.",
        "Record a dataset that reads tables, or JSON and CSV files on this machine.",
    ),
    "TEST_RECORD_FILES_UNREADABLE": Condition(
        "{folder} has no JSON or CSV files on this machine, so its rows are not recorded.",
        "Record a dataset that reads tables, such as one that reads this one.",
    ),
    "TEST_RECORD_VERSION_NOT_FOUND": Condition(
        "The table of {dataset} has no version {version}.",
        "Name one of its versions, or leave --version out for the present one.",
    ),
    "TEST_RECORD_COLUMN_NOT_FOUND": Condition(
        "No input of {dataset} has a column {column}.{hint}", "Correct the name of the column to mask or not to mask."
    ),
    "TEST_RECORD_FILE_EXISTS": Condition(
        "{path} already exists. Nothing was written.", "Name another file with --to, or delete this one."
    ),
}
