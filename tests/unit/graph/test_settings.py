"""The settings of a flow are restored, whatever happens while its query is built."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from py4j.protocol import Py4JError

from framework.foundation.errors import UserError
from framework.graph.queries.settings import SessionSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Conf:
    """The options of a session, which rejects the value `invalid`."""

    def __init__(self, **values: str) -> None:
        self.values = values

    def set(self, key: str, value: str) -> None:
        """Set an option."""
        if value == "invalid":
            raise Py4JError(value)
        self.values[key] = value

    def unset(self, key: str) -> None:
        """Remove an option."""
        self.values.pop(key, None)

    def getOption(self, key: str) -> Any:  # noqa: N802 - a method of Spark
        """Return a Scala option."""
        return SimpleNamespace(isDefined=lambda: key in self.values, get=lambda: self.values[key])


def test_an_invalid_value_is_reported_and_all_settings_are_restored() -> None:
    """The keys after the invalid one have no effect, and the keys before it are restored."""
    conf = Conf(first="1", third="3")
    spark = cast("SparkSession", SimpleNamespace(_jsparkSession=SimpleNamespace(conf=lambda: conf)))
    with (
        pytest.raises(UserError) as caught,
        SessionSettings(spark).applied({"first": "2", "second": "invalid", "third": "4", "fourth": "5"}),
    ):
        pass
    assert caught.value.condition == "SPARK_SETTING_INVALID"
    assert conf.values == {"first": "1", "third": "3"}
