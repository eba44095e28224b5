"""Conditions of sandboxes: given and expected rows, and what tests state."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "TEST_ROW_NOT_A_ROW": Condition(
        "{value} is not a list of rows.",
        "Write a list of tuples or dicts, a text table with a header, the Path of a CSV or JSON file, or a DataFrame.",
    ),
    "TEST_ROW_TEXT_INVALID": Condition(
        "{place} of the text table is invalid: {cause}",
        "Write one row a line, with `|` between the cells, and put a cell that contains `|` or `#` in quotes.",
    ),
    "TEST_ROW_FILE_NOT_FOUND": Condition("There is no file {path} with rows.", "Correct the path."),
    "TEST_ROW_FILE_INVALID": Condition(
        "{path} has no readable rows: {cause}",
        "Rows are read from .csv and .tsv files with a header, and from .json, .jsonl and .ndjson files with objects.",
    ),
    "TEST_ROW_LENGTH": Condition(
        "{place} has {count}, but there {columns}.",
        "Write a value for each column, None for NULL, or write the row as a dict.",
    ),
    "TEST_ROW_COLUMN_UNKNOWN": Condition(
        "{place} has a column {column!r}, which is not among the columns {columns}.{hint}",
        "Correct the name, or give the rows a schema that has the column.",
    ),
    "TEST_ROW_COLUMN_TWICE": Condition(
        "The rows name the column {column} twice, as {first!r} and as {second!r}.",
        "Write one of the names in all rows.",
    ),
    "TEST_ROW_VALUE": Condition(
        "{place}, column {column}: {value} is no {type}: {cause}", "Write a value of the type {type}."
    ),
    "TEST_ROW_TYPES": Condition(
        "The column {column} has values of the types {first} and {second}, which have no common type.",
        "Write values of one type, or give the rows a schema.",
    ),
    "TEST_NO_UPDATE": Condition("No update of the sandbox has run yet.", "Call update() first."),
    "TEST_COLUMN_UNKNOWN": Condition(
        "{dataset} has no column {column!r}; it has {columns}.{hint}", "Correct the name in only=[…]."
    ),
    "TEST_EXPECTATION_UNKNOWN": Condition(
        "{dataset} has no expectation {expectation!r}; {known}.{hint}", "Correct the name, or name another dataset."
    ),
    "TEST_QUALITY_WITHOUT_COUNT": Condition(
        "No count of the expectation {expectation!r} is given.", "Write passed=…, failed=… or both."
    ),
    "TEST_REASON_UNKNOWN": Condition(
        "{reason!r} is neither an expectation of {dataset} nor an error condition.{hint}",
        "Write the name of an expectation of the dataset, or the condition of an error.",
    ),
    "TEST_CONDITION_UNKNOWN": Condition(
        "There is no error condition {name!r}.{hint}",
        "Write the name in brackets that an error message begins with.",
    ),
    "TEST_PLAN_WORD_UNKNOWN": Condition(
        "{word!r} is not what a plan does with a dataset.{hint}", "Write one of: {words}."
    ),
    "TEST_EVENT_UNKNOWN": Condition("There is no {kind} {name!r} of events.{hint}", "Write one of: {known}."),
    "TEST_SOURCE_NOT_GIVEN": Condition(
        "{source} has no given rows whose order could change.{hint}", "Name an input of given(…) or arrives(…)."
    ),
    "TEST_SOURCE_TOO_SMALL": Condition(
        "{source} has {count}, which can't arrive in another order.", "Give at least two rows or files."
    ),
    "TEST_TIME_INVALID": Condition(
        "The clock cannot be set to {time!r}.", "Write the time in ISO 8601, such as 2026-01-01T12:00."
    ),
    "TEST_CRASH_UNKNOWN": Condition("No update crashes at {moment!r}.{hint}", "Use one of these moments:\n{known}"),
    "TEST_RELEASE_WITHOUT_FILE": Condition(
        "The code of {release} cannot replace modules that are given in Python.",
        "Test a pipeline of a spec file, `Pipeline.from_spec`, whose modules are files of a release, too.",
    ),
    "TEST_RELEASE_NO_GIT": Condition(
        "The code of another release cannot be read with git in {folder}: {problem}.",
        "Install git and run the test in a clone of the repository; or use a folder with the code of the release.",
    ),
    "TEST_RELEASE_NOT_FOUND": Condition(
        "Git knows no tag, branch or commit {release!r} in {folder}.{hint}",
        "Correct the name. A clone of a CI service often has no tags: fetch them, as `fetch-depth: 0` "
        "of actions/checkout does.",
    ),
    "TEST_RELEASE_WITHOUT_SPEC": Condition(
        "The release {release} has no file {file} in {folder}.",
        "If the pipeline was in another folder of the repository then, name it: git:TAG:folder.",
    ),
}
