"""Conditions of updates: tables, streams, quality, retries."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {

}
