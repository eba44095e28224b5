"""The look at the versions of a session, with other versions and registries than those of the session."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from framework.engine.registry.private_part import TESTED, PrivatePart, Product
from framework.engine.registry.session_check import check_session, missing_names
from framework.foundation.errors import OperationError

_TESTED = {product: versions[0] for product, versions in TESTED.items()}
_NO_SPARK: Any = None
NEEDED = PrivatePart(module="plans.plans", owner="a.Plan", members=("(Seq)", "leaves()", "name()"))
REPLACED = PrivatePart(
    module="delta.log", owner="a.Log", members=("open(String)",), product=Product.DELTA, public_way="INSERT"
)


class Known:
    """Knows some classes."""

    def __init__(self, **classes: Collection[str]) -> None:
        self._classes = {f"a.{name}": members for name, members in classes.items()}

    def of(self, owner: str) -> Collection[str] | None:
        """The members of a class."""
        return self._classes.get(owner)


def test_with_the_tested_versions_no_name_is_looked_up() -> None:
    """Then the check is a comparison of texts."""
    assert check_session(_NO_SPARK, versions=_TESTED, parts=(NEEDED,), names=Known()) is None


def test_another_version_with_all_needed_parts_is_a_warning_in_one_sentence() -> None:
    """A part with a public way beside it may be missing."""
    versions = {**_TESTED, Product.SPARK: "4.3.1", Product.DELTA: "4.5.0"}

    warning = check_session(
        _NO_SPARK, versions=versions, parts=(NEEDED, REPLACED), names=Known(Plan=["leaves", "name"])
    )

    assert warning is not None
    assert warning.condition == "SPARK_VERSION_NOT_TESTED"
    assert (
        "The session has Spark 4.3.1 and Delta 4.5.0, and Sluice was tested with Spark 4.2.0 and Delta 4.4.0; "
        "all parts that Sluice needs are there, and the rest is done in Delta's and Spark's public ways."
    ) in warning.render()


def test_another_version_without_a_needed_part_is_an_error_that_names_it() -> None:
    """A missing class counts as itself, a missing member with its class."""
    versions = {**_TESTED, Product.SPARK: "5.0.0"}

    with pytest.raises(OperationError, match=r"it lacks parts that Sluice needs: a\.Plan\.leaves\.") as raised:
        check_session(_NO_SPARK, versions=versions, parts=(NEEDED, REPLACED), names=Known(Plan=["name"]))

    assert raised.value.condition == "SPARK_VERSION_NOT_TESTED"
    assert missing_names(NEEDED, Known()) == ["a.Plan"]
