"""The errors of a query that may be due to a module that raised, and those that can't be."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, ParseException

from framework.foundation.errors import SluiceError, UserError
from framework.foundation.names import QualifiedName
from framework.graph.queries.calls import call_user_code, is_of_columns

FLOW = QualifiedName(catalog="main", schema="s", table="t")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AnalysisException("no column"), True),
        (KeyError("no column"), True),
        (ParseException("no SQL"), False),
        (NameError("no name"), False),
        (UserError("PIPELINE_SINK_READ", sink=FLOW), False),
    ],
)
def test_only_a_failed_look_up_of_columns_is_a_consequence(error: Exception, *, expected: bool) -> None:
    """An analysis and a look-up depend on the columns; a name, a syntax and a rule do not."""

    def query() -> None:
        raise error

    with pytest.raises(SluiceError) as caught:
        call_user_code(query, FLOW, None)
    assert is_of_columns(caught.value) is expected
