"""The present time of a session's queries, frozen: a rule between Spark's analysis and its optimizer.

The analysed plans keep `current_timestamp`, by which the planner knows that a query is not repeatable. The optimizer
of Spark and the micro-batches of streams get a literal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framework.engine.jvm.java import java_class
from framework.engine.sessions.session import set_setting, setting, unset_setting
from framework.foundation.clock import Clock, FrozenClock, SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASSES = ("FrozenTime$Literals", "FrozenTime", "FrozenTime$Builder")
"""The classes of `SOURCE` in the package `sluice`; a class comes after the one that it creates."""

_SETTING = "spark.sluice.frozenTime"

SOURCE = """
package sluice;

import java.time.Instant;
import java.time.LocalTime;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.Option;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

public class FrozenTime extends Rule {
    private final SparkSession session;

    public FrozenTime(SparkSession session) { this.session = session; }

    public TreeNode apply(TreeNode plan) {
        String millis = session.sessionState().conf().getConfString("spark.sluice.frozenTime", "");
        if (millis.isEmpty()) return plan;
        Literals literals = new Literals(Long.parseLong(millis));
        return (TreeNode) ((LogicalPlan) plan).transformAllExpressionsWithSubqueries(literals);
    }

    public static class Builder extends AbstractFunction1 {
        public Object apply(Object session) { return new FrozenTime((SparkSession) session); }
    }

    public static class Literals extends AbstractPartialFunction {
        private final long millis;

        public Literals(long millis) { this.millis = millis; }

        private Literal instant(DataType type, Option zone) {
            return new CurrentBatchTimestamp(millis, type, zone).toLiteral();
        }

        private Literal time(CurrentTime node) {
            long nanos = LocalTime.ofInstant(Instant.ofEpochMilli(millis), node.zoneId()).toNanoOfDay();
            long unit = 1;
            for (int digit = node.precision(); digit < 9; digit++) unit *= 10;
            return new Literal(Long.valueOf(nanos - nanos % unit), node.dataType());
        }

        private Expression literal(Object node) {
            if (node instanceof CurrentTimestampLike) return instant(TimestampType$.MODULE$, Option.apply("UTC"));
            if (node instanceof CurrentDate) return instant(DateType$.MODULE$, ((CurrentDate) node).timeZoneId());
            if (node instanceof LocalTimestamp) {
                return instant(TimestampNTZType$.MODULE$, ((LocalTimestamp) node).timeZoneId());
            }
            if (node instanceof CurrentTime) return time((CurrentTime) node);
            if (node instanceof CurrentBatchTimestamp) {
                CurrentBatchTimestamp batch = (CurrentBatchTimestamp) node;
                return instant(batch.dataType(), batch.timeZoneId());
            }
            if (node instanceof CallMethodViaReflection) {
                String called = ((CallMethodViaReflection) node).children().mkString(".");
                if (!called.equals("java.lang.System.currentTimeMillis")) return null;
                return new Literal(UTF8String.fromString(Long.toString(millis)), StringType$.MODULE$);
            }
            return null;
        }

        public boolean isDefinedAt(Object node) { return literal(node) != null; }

        public Object applyOrElse(Object node, Function1 other) {
            Expression found = literal(node);
            return found == null ? other.apply(node) : found;
        }
    }
}
"""


def has_time_rule(spark: SparkSession) -> bool:
    """Return whether the next clone of a session has the rule."""
    extensions = _extensions(spark)
    return "sluice.FrozenTime@" in str(extensions.buildPlanNormalizationRules(spark._jsparkSession).mkString(" "))


def add_time_rule(spark: SparkSession) -> None:
    """Give the rule to later clones of a session, and of each session with the same root; their JVM has `CLASSES`."""
    _extensions(spark).injectPlanNormalizationRule(java_class("sluice.FrozenTime$Builder")())


def _extensions(spark: SparkSession) -> Any:
    return spark._jsparkSession.extensions()


def freeze_time(spark: SparkSession, millis: int | None) -> None:
    """Set the present time of a session with the rule and of its later clones.

    Args:
        spark: the session.
        millis: the time in milliseconds since 1970; None for the machine's time.
    """
    if millis is None:
        unset_setting(spark, _SETTING)
    else:
        set_setting(spark, _SETTING, str(millis))


def frozen_millis(spark: SparkSession) -> int | None:
    """Return the frozen time of a session in milliseconds since 1970; None for the machine's time."""
    found = setting(spark, _SETTING)
    return int(found) if found else None


def clock_of(spark: SparkSession) -> Clock:
    """Return the clock of a session: the machine's, or one that stands still at the frozen time."""
    millis = frozen_millis(spark)
    return SystemClock() if millis is None else FrozenClock(millis)
