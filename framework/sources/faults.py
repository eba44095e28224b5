"""Classification of Spark's exceptions: faults of the user's code, and faults of its sources.

Names, arguments, syntax and columns are code: with such a fault, no dataset is updated. Everything behind a path or an
address is a source: files and logs, the connection, the permission. With such a fault, only its dataset fails.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException

from framework.engine.jvm.java_errors import condition_of, is_of_class, stack_text, throwables
from framework.foundation.errors import OperationError, RemoteError, SluiceError

_CONDITIONS = (
    "CANNOT_MERGE_SCHEMAS",
    "DELTA_CANNOT_RECONSTRUCT_PATH_FROM_URI",
    "DELTA_EMPTY_DIRECTORY",
    "DELTA_FAILED_READ_FILE_FOOTER",
    "DELTA_FILE_NOT_FOUND",
    "DELTA_FILE_OR_DIR_NOT_FOUND",
    "DELTA_INVALID_PROTOCOL_VERSION",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_MISSING_FILES_UNEXPECTED_VERSION",
    "DELTA_MISSING_PART_FILES",
    "DELTA_NO_COMMITS_FOUND",
    "DELTA_NO_RECREATABLE_HISTORY_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_SCHEMA_NOT_SET",
    "DELTA_STATE_RECOVER_ERROR",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_TXN_LOG_FAILED_INTEGRITY",
    "DELTA_UNSUPPORTED_FEATURES_FOR_READ",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "FAILED_READ_FILE",
    "INVALID_PARAMETER_VALUE.CHARSET",
    "MALFORMED_CHARACTER_CODING",
    "MALFORMED_CSV_RECORD",
    "MALFORMED_RECORD_IN_PARSING",
    "PARQUET_TYPE_ILLEGAL",
    "PARQUET_TYPE_NOT_RECOGNIZED",
    "PARQUET_TYPE_NOT_SUPPORTED",
    "PATH_NOT_FOUND",
    "UNABLE_TO_INFER_SCHEMA",
    "UNSUPPORTED_TIME_TYPE",  # a logical type of Avro files
)
"""Spark's and Delta's conditions, including all conditions whose names begin with one of these."""

_REPEATED_COLUMN = "COLUMN_ALREADY_EXISTS"
_READERS = "org.apache.spark.sql.execution.datasources."
"""The Java package that reads files: a duplicate column there comes from the data, such as `id` and `ID`."""

_EXCEPTIONS = (
    "java.io.IOException",
    "java.io.UncheckedIOException",
    "java.net.URISyntaxException",  # a file whose name has a colon
    "java.sql.SQLException",
    "com.univocity.parsers.common.TextParsingException",
)
_NO_DRIVER = "No suitable driver"
"""The message of a `java.sql.SQLException` for a package that the session lacks."""
_NO_FILE_SYSTEM = "org.apache.hadoop.fs.UnsupportedFileSystemException"
"""An `IOException` for another package that the session lacks, or for a wrong scheme of a path."""


def is_source_fault(error: BaseException) -> bool:
    """Return whether a source of a query caused an error, not the query's code.

    Args:
        error: an error of Sluice, or an exception of PySpark.
    """
    if isinstance(error, RemoteError):
        return not error.is_users
    if isinstance(error, SluiceError):
        return isinstance(error, OperationError)
    if isinstance(error, PySparkException) and _is_of_data(error.getCondition(), stack_text(error)):
        return True
    causes = tuple(throwables(error))
    if any(is_of_class(each, _NO_FILE_SYSTEM) for each in causes):
        return False
    return any(_is_of_source(each) for each in causes)


def _is_of_data(condition: str | None, stack: str) -> bool:
    if condition == _REPEATED_COLUMN:
        return _READERS in stack
    return condition is not None and condition.startswith(_CONDITIONS)


def _is_of_source(throwable: Any) -> bool:
    if _is_of_data(condition_of(throwable), ""):
        return True
    is_named = any(is_of_class(throwable, name) for name in _EXCEPTIONS)
    return is_named and throwable.getMessage() != _NO_DRIVER
