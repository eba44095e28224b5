"""Causes of JVM exceptions: the last cause, and faults of the session rather than of a query.

A missing library, an invalid setting, a storage connector, or a machine's Python or memory makes any query fail, so
advice to correct the query would be wrong. Graph, updates and commands check for session faults before they give it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from framework.engine.jvm.java import java_class
from framework.foundation.resource_faults import free_space
from framework.foundation.wording import one_line

_CAUSED_BY = re.compile(r"^Caused by: ", re.MULTILINE)
_FRAME = re.compile(r"^\s*at (?:[\w.@-]+/)*(?P<method>[\w.$<>]+)\(", re.MULTILINE)
_HEAD = re.compile(
    r"(?P<kind>(?:[a-z_]\w*\.)+[A-Z][\w$]*(?:Exception|Error|Throwable))(?:: (?P<message>.*))?\Z", re.DOTALL
)
_FIRST_FRAMES = 8

_LIBRARY = frozenset(
    {
        "ClassNotFoundException",
        "NoClassDefFoundError",
        "NoSuchMethodError",
        "NoSuchFieldError",
        "UnsupportedClassVersionError",
        "IncompatibleClassChangeError",
        "AbstractMethodError",
        "ServiceConfigurationError",
        "UnsatisfiedLinkError",
    }
)
_CLASS = re.compile(r"(?:Class )?(?P<name>[A-Za-z_$][\w$]*(?:[./][\w$]+)+)")
_DRIVER = "No suitable driver"
_READERS_OF_SETTINGS = (
    "org.apache.hadoop.conf.Configuration.",
    "org.apache.spark.SparkConf.",
    "org.apache.spark.internal.config.",
    "org.apache.spark.sql.internal.SQLConf",
)
_INVALID_SETTING = re.compile(r"\[INVALID_CONF_VALUE|\[CONFIG_NOT_AVAILABLE|\[CANNOT_MODIFY_CONFIG")
_CONNECTORS = (
    "org.apache.hadoop.fs.s3a.",
    "org.apache.hadoop.fs.azure",
    "org.apache.hadoop.fs.gs.",
    "com.google.cloud.hadoop.",
    "software.amazon.awssdk.",
    "com.amazonaws.",
    "com.azure.",
    "com.microsoft.azure.",
    "org.apache.hadoop.fs.aliyun.",
)
_NO_FILE = re.compile(r"FileNotFoundException|PATH_NOT_FOUND|NoSuchFileException")
_NO_PYTHON = re.compile(r"Cannot run program \"(?P<python>[^\"]+)\"")
_NO_MEMORY = "java.lang.OutOfMemoryError"
# Java unpacks these from Spark's jars into its temporary folder, and loads them from there.
_UNPACKED = r"snappyjava|zstd-jni[\w.-]*|lz4-java|rocksdbjni[\w.-]*"
_NOT_LOADED = re.compile(
    rf"UnsatisfiedLinkError: (?P<problem>no (?:{_UNPACKED}) in java\.library\.path"
    r"|\S*/\w*(?:snappy|zstd|lz4|rocksdb)\S*\.so: [^\n]*)"
)
_QUOTED = re.compile(r"[\"'](?P<value>[^\"']+)[\"']")


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaCause:
    """One exception of a chain: its class, its message, and the first methods of its stack."""

    kind: str
    message: str
    methods: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The class and the message, as one line."""
        return one_line(f"{self.kind}: {self.message}" if self.message else self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFault:
    """A fault of the session: its error condition, and the fields of its message except the subject."""

    condition: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_of_read(self) -> bool:
        """Return whether a single read in the user's code causes the fault, so that its line is useful."""
        return self.condition in {"SESSION_LIBRARY_MISSING", "STORAGE_CONNECTOR_FAILED"}


def java_stack(error: BaseException) -> str:
    """Return the stack of a Java exception with all of its causes; empty if the error is not of the JVM."""
    origin = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    if not isinstance(error, Py4JError | PySparkException) or not isinstance(origin, JavaObject):
        return ""
    written = java_class("java.io.StringWriter")()
    thrown: Any = origin
    thrown.printStackTrace(java_class("java.io.PrintWriter")(written))
    return str(written.toString())


def java_causes(stack: str) -> tuple[JavaCause, ...]:
    r"""Return the exceptions of a printed stack, the last cause last.

    The message of a failed job contains the stack of its task, whose causes are included.

    Examples:
        >>> stack = "a.b.RunException: No.\n\tat a.C.run(C.java:1)\nCaused by: java.io.IOException\n\tat a.D.x(D:2)"
        >>> [cause.words for cause in java_causes(stack)]
        ['a.b.RunException: No.', 'java.io.IOException']
    """
    return tuple(_causes(stack))


def _causes(stack: str) -> Iterator[JavaCause]:
    for section in _CAUSED_BY.split(stack):
        head = re.split(r"\n\s+at ", section, maxsplit=1)[0].strip()
        found = _HEAD.search(head) if not head.startswith("[") else None
        if found is not None:
            methods = tuple(frame["method"] for frame in _FRAME.finditer(section))
            yield JavaCause(kind=found["kind"], message=(found["message"] or "").strip(), methods=methods)


def with_last_cause(words: str, error: BaseException) -> str:
    """Append the last Java cause to the description of an error, unless it is already included."""
    causes = java_causes(java_stack(error))
    if len(causes) < 2:
        return words
    last = causes[-1]
    if (last.message and one_line(last.message).rstrip(".") in one_line(words)) or last.kind in words:
        return words
    return f"{words.rstrip().rstrip('.')}: {last.words}"


def session_fault(error: BaseException) -> SessionFault | None:
    """Return the session fault that caused an exception; None if the query is the cause, or it is unknown."""
    stack = java_stack(error)
    return fault_in(stack, _settings()) if stack else None


def fault_in(stack: str, settings: Mapping[str, str]) -> SessionFault | None:
    """Return the session fault in a printed stack, determined by its last cause.

    Args:
        stack: the exception with its causes.
        settings: the settings of the session, to find the setting with the invalid value.
    """
    causes = java_causes(stack)
    return (_of_machine(stack, causes[-1]) or _of_settings(causes, settings)) if causes else None


def _of_machine(stack: str, last: JavaCause) -> SessionFault | None:
    """Return the fault if Python can't be started or memory is exhausted; Spark names these above other causes."""
    python = _NO_PYTHON.search(stack)
    if python is not None:
        return SessionFault(condition="PYTHON_OF_TASKS_UNFIT", fields={"python": python["python"], "error": last.words})
    library = _NOT_LOADED.search(stack)
    if library is not None:
        free = free_space((_temporary_folder(),))
        fields = {"problem": library["problem"].strip(), "free": f" {free}." if free else ""}
        return SessionFault(condition="TEMPORARY_FOLDER_UNFIT", fields=fields)
    return SessionFault(condition="SPARK_OUT_OF_MEMORY", fields={"cause": last.words}) if _NO_MEMORY in stack else None


def _of_settings(causes: Sequence[JavaCause], settings: Mapping[str, str]) -> SessionFault | None:
    """Return the fault of a library, a setting or a storage connector."""
    last = causes[-1]
    if last.kind.rpartition(".")[2] in _LIBRARY or last.message.startswith(_DRIVER):
        found = _CLASS.search(last.message)
        named = _named(settings, found["name"].replace("/", ".") if found is not None else "")
        return SessionFault(condition="SESSION_LIBRARY_MISSING", fields={"cause": last.words, "named": named})
    is_read = any(each.startswith(_READERS_OF_SETTINGS) for each in last.methods[:_FIRST_FRAMES])
    if is_read or _INVALID_SETTING.search(last.message):
        value = _QUOTED.search(last.message)
        named = _named(settings, value["value"] if value is not None else "")
        return SessionFault(condition="SESSION_SETTING_INVALID", fields={"cause": last.words, "named": named})
    through = (method for cause in causes for method in cause.methods)
    if any(each.startswith(_CONNECTORS) for each in through) and not any(
        _NO_FILE.search(each.words) for each in causes
    ):
        return SessionFault(condition="STORAGE_CONNECTOR_FAILED", fields={"cause": last.words})
    return None


def _named(settings: Mapping[str, str], value: str) -> str:
    """Return the sentence that names the settings with a value; empty if there is none."""
    keys = sorted(key for key, each in settings.items() if value and each == value)
    return f" The session has {', '.join(f'{key} = {value}' for key in keys)}." if keys else ""


def python_of_tasks() -> str:
    """Return the program that runs Python functions in Spark's tasks; empty without a session."""
    context = SparkContext._active_spark_context
    return "" if context is None else str(context.pythonExec)


def temporary_folders() -> tuple[str, ...]:
    """Return the folders of Spark's temporary files; () without a session."""
    context = SparkContext._active_spark_context
    if context is None:
        return ()
    jvm: Any = context._jvm
    folders = jvm.org.apache.spark.util.Utils.getConfiguredLocalDirs(context._jsc.sc().conf())
    return tuple(str(folder) for folder in folders)


def _temporary_folder() -> str:
    """Return the folder of Java's own temporary files; empty without a session."""
    context = SparkContext._active_spark_context
    jvm: Any = None if context is None else context._jvm
    return "" if jvm is None else str(jvm.java.lang.System.getProperty("java.io.tmpdir"))


def _settings() -> dict[str, str]:
    context = SparkContext._active_spark_context
    return {} if context is None else dict(context.getConf().getAll())
