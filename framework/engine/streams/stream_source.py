"""A streaming source in Python whose batches are native plans: Spark's `Source` by a proxy.

Spark's own Python sources read rows in Python workers. Here Python only decides which data a batch contains; the rows
come from any plan of the JVM. Spark calls the source in the thread of its query, and records each batch in its offset
log before the batch runs, as for its own sources.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

from framework.engine.jvm.callbacks import accept_callbacks, note_caller
from framework.engine.jvm.java import java_class, scala_object
from framework.engine.plans.plans import of_plan
from framework.foundation.errors import SluiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_numbers = itertools.count(1)


class BatchSource(Protocol):
    """The decisions of a source. Offsets are JSON strings; equal strings are equal offsets."""

    schema: StructType

    def prepare(self) -> None:
        """Fix the end of a triggered update at the present data. Not called in a continuous update."""
        ...

    def next_offset(self, start: str | None) -> str | None:
        """Return the end of the batch after `start` (None: the beginning); `start` if there is nothing new.

        All state that the offset refers to must be durable when the call returns: Spark writes the offset to its log
        next.
        """
        ...

    def batch(self, start: str | None, end: str) -> DataFrame:
        """Return the rows after `start` up to `end`, as a streaming DataFrame; the same rows in each call."""
        ...

    def commit(self, end: str) -> None:
        """Release resources of batches up to `end`, whose rows are committed."""
        ...


class SparkSource:
    """The proxy for one source of one query.

    Args:
        spark: the session of the query.
        source: decides the batches.
        name: for progress reports.
        faults: gets the exception that a call raised; Spark keeps only its text.
    """

    class Java:
        """The interfaces that the JVM sees."""

        implements = (
            "org.apache.spark.sql.execution.streaming.Source",
            "org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow",
        )

    def __init__(self, source: BatchSource, name: str, faults: list[BaseException]) -> None:
        accept_callbacks()
        self._source = source
        self._name = name
        self._faults = faults
        self._number = next(_numbers)

    # The methods below have the names and arguments of the Java interfaces.

    def schema(self) -> Any:
        """Spark's schema of the rows."""
        return java_class("org.apache.spark.sql.types.DataType").fromJson(self._source.schema.json())

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the update."""
        try:
            self._source.prepare()
        except SluiceError as error:
            self._faults.append(error)

    def getDefaultReadLimit(self) -> Any:
        """No limit: the source has its own."""
        return java_class("org.apache.spark.sql.connector.read.streaming.ReadLimit").allAvailable()

    def latestOffset(self, start: Any, limit: Any) -> Any:
        """Return the end of the next batch; `start` if the source can't continue.

        In that case, the fault is raised where the query is awaited (`run_stream`), without a Java stack.
        """
        del limit
        if self._faults:
            return start
        try:
            found = self._source.next_offset(None if start is None else str(start.json()))
        except SluiceError as error:
            self._faults.append(error)
            return start
        return None if found is None else self._offset(found)

    def reportLatestOffset(self) -> Any:
        """Unknown."""
        return None

    def getOffset(self) -> Any:
        """Unused: Spark calls `latestOffset` instead."""
        return java_class("scala.Option").empty()

    def getBatch(self, start: Any, end: Any) -> Any:
        """Return the plan of a batch."""
        first = str(start.get().json()) if start.isDefined() else None
        return self._guarded(lambda: self._source.batch(first, str(end.json()))._jdf)

    def commit(self, end: Any) -> None:
        """Release resources of earlier batches."""
        self._guarded(lambda: self._source.commit(str(end.json())))

    def initialOffset(self) -> Any:
        """Unused: a source of this interface has no initial offset."""
        return None

    def deserializeOffset(self, json: str) -> Any:
        """Return an offset from its text."""
        return self._offset(json)

    def stop(self) -> None:
        """Handle the end of the query, whose thread calls this source for the last time."""
        note_caller()

    def equals(self, other: Any) -> bool:
        """Return whether `other` is this source."""
        return other is self

    def hashCode(self) -> int:
        """Return the number of the source."""
        return self._number

    def toString(self) -> str:
        """Return the name, as progress reports show it."""
        return self._name

    def _offset(self, json: str) -> Any:
        return java_class("org.apache.spark.sql.execution.streaming.runtime.SerializedOffset")(json)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except BaseException as error:
            self._faults.append(error)
            raise


def stream_of(spark: SparkSession, source: BatchSource, name: str, faults: list[BaseException]) -> DataFrame:
    """Return the stream of a source, for a query that has no other sources.

    Args:
        spark: the session of the query.
        source: decides.
        name: for progress reports.
        faults: gets the exception that a call raised.
    """
    struct = java_class("org.apache.spark.sql.types.DataType").fromJson(source.schema.json())
    output = scala_object("org.apache.spark.sql.catalyst.types.DataTypeUtils").toAttributes(struct)
    return of_plan(spark, relation_of(spark, SparkSource(source, name, faults), output))


def relation_of(spark: SparkSession, source: SparkSource, output: Any) -> Any:
    """Return the leaf of a streaming plan that reads a source, with the attributes of the leaf it replaces."""
    relation = scala_object("org.apache.spark.sql.execution.streaming.runtime.StreamingExecutionRelation")
    none = java_class("scala.Option").empty()
    return relation.apply(source, output, none, getattr(relation, "apply$default$4")(), spark._jsparkSession)
