"""Conditions of AUTO CDC: contracts, sequences, drift."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {

}
