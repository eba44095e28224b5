"""Conditions of `cloudFiles`: options, folders, schemas and new columns."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

NEW_COLUMNS = "UNKNOWN_FIELD"
WIDER_TYPES = "WIDER_FIELD"
GROWN = frozenset({NEW_COLUMNS, WIDER_TYPES})
"""New columns or wider types are recorded: the same flow goes on with them when it is started again."""

CONDITIONS: dict[str, Condition] = {
    "CLOUD_FILES_OPTION_UNKNOWN": Condition(
        "The source cloudFiles has no option `{option}`.{hint}", "Correct its name, or remove it."
    ),
    "CLOUD_FILES_OPTION_MISSING": Condition(
        "The source cloudFiles needs `{option}`.",
        'Add it to the reader, such as `.load("/landing/orders")` for the path.',
    ),
    "CLOUD_FILES_OPTION_INVALID": Condition(
        "The option `{option}` of cloudFiles is `{value}`, but must be {expected}.", "Correct its value."
    ),
    "CLOUD_FILES_OPTION_UNSUPPORTED": Condition(
        "The option `{option}` of cloudFiles can't be `{value}`: {why}.", "Remove the option."
    ),
    "CLOUD_FILES_OPTION_WITHOUT_EFFECT": Condition(
        "The option `{option}` of cloudFiles has no effect: {why}.", "You may leave it as it is, or remove it."
    ),
    "CLOUD_FILES_ZEROS_LOST": Condition(
        "Values of {columns} begin with zeros in {path}, such as 007, and lose them: the inferred type is a number.",
        "If they are codes, such as postal codes, set `cloudFiles.schemaHints` to {hints} before the first update.",
    ),
    "CLOUD_FILES_OPTION_CONFLICT": Condition(
        "`{first}` of cloudFiles contradicts `{second}`: {why}.", "Remove one of them."
    ),
    "CLOUD_FILES_FOLDER_MISSING": Condition(
        "The folder {path} that cloudFiles reads does not exist.", "Create the folder, or correct the path."
    ),
    "CLOUD_FILES_SCHEMA_UNKNOWN": Condition(
        "The folder {path} contains no file from which the schema can be inferred.",
        "Add a file, or give the schema with `.schema(…)`.",
    ),
    "CLOUD_FILES_SCHEMA_UNREADABLE": Condition(
        "The columns of {count} {format} files below {path} can't be read{file}: {cause}", "Remove or repair the files."
    ),
    "CLOUD_FILES_ENCODING_UNKNOWN": Condition(
        "Spark does not read files below {path} in this encoding: {cause}",
        "Correct the option `encoding`. Or set `spark.sql.legacy.javaCharsets` to `true` in `spark_conf` of the "
        "pipeline spec: Spark then reads every encoding that Java knows.",
    ),
    "CLOUD_FILES_HEADER_UNREADABLE": Condition(
        "The header of the file {file} can't be read: {cause}",
        "Correct the options of the format, or remove or repair the file.",
    ),
    "CLOUD_FILES_SKIPPED_ROWS": Condition(
        "The first {count} lines of the file {file} are not whole records.",
        "Correct `skipRows`, or set `multiLine` to false if no value contains a line break.",
    ),
    "CLOUD_FILES_HINTS_INVALID": Condition(
        "The option `cloudFiles.schemaHints` is `{hints}`: {cause}",
        "Write columns with types, such as `id BIGINT, address.zip STRING`.",
    ),
    "CLOUD_FILES_HINTS_CONFLICT": Condition(
        "The hint `{hint}` of `cloudFiles.schemaHints` contradicts {other}: {why}.",
        "Correct or remove one of them. Fields inside of arrays and maps are named as in `items.element.id` and "
        "`prices.value.amount`.",
    ),
    "CLOUD_FILES_FORMAT_MISSING": Condition(
        "Spark has no reader for {format} files in this session.",
        "Add the package `org.apache.spark:spark-avro_2.13:{version}` to `spark.jars.packages` in `spark_conf` of the "
        "pipeline.",
    ),
    "CLOUD_FILES_FILE_MISSING": Condition(
        "{count} file(s) that were found are gone before they were read, such as {file}.",
        "Put the files back, or set `ignoreMissingFiles` to true to go on without their rows.",
    ),
    "CLOUD_FILES_CLEANING_FAILED": Condition(
        "The file {file} can't be {done} by cleanSource: {problem}.",
        "Give this process the permission, or correct `cloudFiles.cleanSource.moveDestination`. The rows of the file "
        "are in the table.",
    ),
    "CLOUD_FILES_NAME_UNREADABLE": Condition(
        "The folder {path} contains a name that is not UTF-8: {name}.", "Rename the file or the folder."
    ),
    "CLOUD_FILES_LIST_TOO_SHORT": Condition(
        "The list of files in {path} ends at {last}, but the checkpoint needs {wanted}.",
        "Restore the checkpoint, or reset it: sluice run --reset-checkpoint FLOW.",
    ),
    "UNKNOWN_FIELD": Condition(
        "UnknownFieldException: files below {path} have new columns: {columns}.",
        "The columns are recorded. Run the update again.",
    ),
    "UNKNOWN_FIELD_CASE": Condition(
        "Files below {path} have columns whose names differ from others in case only: {columns}.",
        "Spell a column the same in all files; its values would be lost otherwise.",
    ),
    "UNKNOWN_FIELD_REFUSED": Condition(
        "UnknownFieldException: files below {path} have columns that the schema lacks: {columns}; such as {file}.",
        "Add the columns to the schema, set `cloudFiles.schemaEvolutionMode` to rescue, or remove the files and set "
        "`ignoreMissingFiles` to true.",
    ),
    "WIDER_FIELD": Condition(
        "Files below {path} have values that need wider types of columns: {columns}.",
        "The types are recorded. Run the update again.",
    ),
}
