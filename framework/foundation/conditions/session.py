"""Conditions of Java, jars and the Spark session."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {

}
