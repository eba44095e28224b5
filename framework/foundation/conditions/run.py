"""Conditions of updates: tables, streams, quality, retries."""

from __future__ import annotations

from framework.foundation.conditions.cloud_files import GROWN
from framework.foundation.conditions.entry import Condition

COLUMNS_CHANGED = "SOURCE_COLUMNS_CHANGED"
RESOLVED_AGAIN = GROWN | {COLUMNS_CHANGED}
"""The flow goes on when the graph is resolved again: its table and its readers have the columns then."""

FILES_GONE = "FILES_GONE_BEFORE_COMMIT"

CONDITIONS: dict[str, Condition] = {
    "UPDATE_ID_USED": Condition(
        "An update of this storage has had the id {update} before: events of two updates would be in one log.",
        "Start it with a new id. A retry is a further attempt of the same request: give it the request id {request} "
        "and the next number of the attempt.",
    ),
    "UPDATE_IDENTITY_INVALID": Condition(
        "The {what} {value!r} of the update is invalid. {expected}",
        "Correct it, or leave it out: it is then {default}.",
    ),
    "UPDATE_NOT_FOUND": Condition(
        "No update of this storage has the id {update!r}, or an id that begins with it.",
        "Give the id of an update, or at least its first {fewest} characters: `sluice events -o json` has the ids. An "
        "update that has not started yet needs its whole id.",
    ),
    "UPDATE_AMBIGUOUS": Condition(
        "The ids of several updates begin with {update!r}: {ids}.", "Give more characters of the id."
    ),
    "TABLE_NOT_OWNED": Condition(
        "The table of {dataset} at {path} belongs to {owner}.",
        "Move or rename that table, or set a different name or `path` for the dataset.{advice}",
    ),
    "CATALOG_SILENT": Condition(
        "The catalog {catalog} does not answer: {problem}. Tables are read and written at their paths, but whether "
        "their names in it belong to somebody else is unknown.",
        "Check the settings of the catalog in `spark_conf`, and that its server can be reached.",
    ),
    "CATALOG_ENTRY_LEFT": Condition(
        "The table at {path} is deleted, and its catalog did not answer, so that it may still have the name {name}: "
        "{problem}.",
        "Once the catalog answers, run `DESCRIBE TABLE EXTENDED {name}`. If the location is {path}, remove the name: "
        "`DROP TABLE {name}`.",
    ),
    "PRUNE_UNFINISHED": Condition(
        "A prune of the table {dataset} at {path} was interrupted. The table counts as deleted, and a part of it may "
        "still be there.",
        "Finish the deletion: `sluice run` or `sluice prune`, whichever you run next. No row comes back.",
    ),
    "TABLE_OF_OTHER_STORAGE": Condition(
        "The table of {dataset} at {path} belongs to another storage, {other}.",
        "Set another `path` for the dataset in the code that uses the storage {root}. Or, if the other storage is not "
        "used any more, let the table belong to this one: "
        "{statement}",
    ),
    "TABLE_REPLACED": Condition(
        "Another table was put in the place of the table at {path} while a flow wrote to it. The flow wrote nothing to "
        "the new one.",
        "Put the table back, and run the update again. Or move the new table away: the next update makes the flow's "
        "table anew, with all rows that its sources still have.",
    ),
    "TABLE_WITHOUT_LATEST_ROWS": Condition(
        "The table of {dataset} at {path} lacks the rows that its flows have written to another table since, at "
        "{elsewhere}. They would go on behind these rows.",
        "Give the dataset the path of that table again, or rebuild this one: `sluice run --full-refresh {dataset}`.",
    ),
    "DATASET_TYPE_CHANGED": Condition(
        "{dataset} was declared as {stored}, and is declared as {declared} now. {would}",
        "Declare it as {stored} again.\n  -> Or: declare the {declared} under another name: this table is kept, until "
        "`sluice prune` drops it.\n  -> Or: replace its rows by those that the sources have now: "
        "`sluice run --full-refresh {dataset}`.",
    ),
    "PARTITIONING_CHANGED": Condition(
        "{dataset} is partitioned by {stored}, but now declares the partition columns {wanted}.",
        "Rebuild it with `sluice run --full-refresh {dataset}`, or restore `partition_cols`.",
    ),
    "DATASET_NOT_MATERIALIZED": Condition(
        "Dataset {dataset} has no table yet.", "Create it first: `sluice run --refresh {dataset}`."
    ),
    "EXPECTATION_VIOLATION": Condition(
        "A row of flow {flow} violates the expectation {expectation!r}. The transaction was rolled back. Row: {row}",
        "Correct the data or the expectation, or use `expect_or_drop` (in SQL: ON VIOLATION DROP ROW).",
    ),
    "PYTHON_EXCEPTION": Condition(
        "A Python function of flow {flow} raised an exception: {error}.",
        "Correct the function or the rows that it cannot process, then run again. Committed rows are kept.",
    ),
    "PYTHON_OUT_OF_MEMORY": Condition(
        "A Python function of flow {flow} needs more memory than its process may have: {error}.",
        "Let the function hold fewer rows or smaller values at a time, or let its process have more memory: "
        "`spark.executor.pyspark.memory` in `spark_conf` of the pipeline spec, and the limits of the machine or the "
        "container. Then run again. Committed rows are kept.",
    ),
    "PYTHON_PROCESS_ENDED": Condition(
        "A Python process that ran a function of flow {flow} ended in the middle: it was killed, or it "
        "crashed.{killed}",
        "A machine without free memory kills such processes, and its log says so: free memory, run fewer tasks at a "
        "time with `--master local[1]`, or limit each process with `spark.executor.pyspark.memory` in `spark_conf`, so "
        "that the function's line is named. A crash in a library is found with "
        "`spark.python.worker.faulthandler.enabled` = `true`. Then run again. Committed rows are kept.",
    ),
    "PYTHON_PROCESS_ENDED_AGAIN": Condition(
        "{functions} of flow {flow} ended its process two times with the same rows: it was killed, or it crashed."
        "{killed} It is not tried again, because a third attempt would end in the same way.",
        "Correct the function, or leave out the rows that it cannot process. It may need more memory than the machine "
        "or its container has: limit its process with `spark.executor.pyspark.memory` in `spark_conf`, so that its "
        "line is named. A crash in a library is found with `spark.python.worker.faulthandler.enabled` = `true`. Then "
        "run again. Committed rows are kept.",
    ),
    "FLOW_FAILED": Condition(
        "Flow {flow} failed: {cause}",
        "Correct the cause, then run again. Committed rows are kept, and the next update processes the rest.",
    ),
    "SOURCE_COLUMNS_CHANGED": Condition(
        "The sources of flow {flow} have other columns than when the update analysed them: {columns}. No row was read "
        "with them.",
        "Run the update again: the table of the flow gets the columns first.",
    ),
    "FILES_GONE_BEFORE_COMMIT": Condition(
        "{count} file(s) that were written to the table at {path} were deleted before their commit, such as {file}. "
        "VACUUM with a short retention deletes files that no commit names yet. Nothing was committed.",
        "Run the update again: it writes the rows again. Let VACUUM keep files for longer than an update takes; by "
        "default it keeps them for 7 days.",
    ),
    "FILE_TYPE_MISMATCH": Condition(
        "Flow {flow} reads the column {column} as {wanted}, but in a file it has the type {found}: {file}",
        "Give the column that type in the schema. Or let a `cloudFiles` source keep such values beside their rows: set "
        "`rescuedDataColumn` to `_rescued_data`. Then run again: no row of the batch was written.",
    ),
    "SINK_TYPE_TOO_NARROW": Condition(
        "Column {column} of the table at {path}, to which the sink {dataset} writes, has type {stored} and would lose "
        "parts of values of type {found}. No row was written.",
        "Widen the column of that table, with its property `delta.enableTypeWidening` = `true`, or cast the column in "
        "the query. Then run again.",
    ),
    "TABLE_CHANGED_SINCE_PLAN": Condition(
        "The columns of the table of {dataset} are other ones than when the update was planned: the table would get a "
        "change that the plan does not have ({change}; the plan: {planned}). The table was not changed.",
        "Run again: the next update plans with the columns that the table has now. `sluice plan` shows what it does.",
    ),
    "CONSTRAINT_KEEPS_TYPE": Condition(
        "The table of {dataset} has the constraint {constraints}, and Delta changes no column to which a constraint "
        "refers: {columns}. No row was written.",
        "Run these statements, and then the update again: {statements}.",
    ),
    "GENERATED_COLUMN_KEEPS_TYPE": Condition(
        "The table of {dataset} has the generated columns {generated}, and Delta changes no column that one of them "
        "depends on: {columns}. No row was written.",
        "Cast the column to its former type in the query; if files brought the new type, `cloudFiles.schemaHints` "
        "gives the column its former one. Or let the declared schema fit the new type, and rebuild the table with "
        "`sluice run --full-refresh {dataset}`.",
    ),
    "SPARK_LOST": Condition(
        "The Java process of Spark ended: {ended}.",
        "Run again: every flow continues at its checkpoint. If it ends again, check the memory of this machine and "
        "`spark.driver.memory`.",
    ),
    "INVALID_CONFIGURATION": Condition("{key} has the invalid value {value!r}.", "Set it to {expected}."),
    "REQUEST_INVALID": Condition("The request has {count} error(s). Nothing was written.", ""),
    "DATASET_NOT_FOUND": Condition(
        "This pipeline has no dataset {dataset}.{hint}", "Correct the name. `sluice graph` lists the datasets."
    ),
    "FLOW_NOT_FOUND": Condition(
        "This pipeline has no flow {flow}.{hint}", "Correct the name. `sluice plan` lists the flows."
    ),
    "TABLE_NOT_RESETTABLE": Condition(
        "{dataset} cannot be fully refreshed, because it sets pipelines.reset.allowed=false.",
        "Remove the table property, or refresh without `--full-refresh`.",
    ),
    "FLOW_NOT_RESETTABLE": Condition(
        "Flow {flow} recomputes its target in each update and has no checkpoint to reset.",
        "Use `--refresh` or `--full-refresh` with its dataset.",
    ),
}
