"""A session for tests without Spark, of which only the configured catalogs are asked for."""

from __future__ import annotations

from typing import Self


class NoCatalogs:
    """A session without configured catalogs, its Java twin, its configuration and an entry of it."""

    @property
    def _jsparkSession(self) -> Self:  # noqa: N802 - PySpark's name
        return self

    def conf(self) -> Self:
        """The configuration, which has no entries."""
        return self

    def get(self, _key: str, default: str) -> str:
        """An entry that is not set."""
        return default

    def getOption(self, _key: str) -> Self:  # noqa: N802 - Spark's name
        """An entry that is not set, as an option."""
        return self

    def isDefined(self) -> bool:  # noqa: N802 - Scala's name
        """It is not."""
        return False
