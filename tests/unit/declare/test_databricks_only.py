"""Exceptions of modules that were written for Databricks, and what the errors say to do."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError

from framework.declare.modules.databricks_only import advice_for
from framework.declare.modules.shims import shimmed


def _raised(code: str) -> BaseException:
    """The exception that a line of a module raises."""
    with shimmed(), pytest.raises(BaseException) as caught:  # noqa: PT011 - each line raises another one
        exec(compile(code, "m.py", "exec"), {"__name__": "m"})  # noqa: S102 - the lines are in this file
    return caught.value


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("dbutils.fs.ls('/')", "`from databricks.sdk.runtime import dbutils`"),
        ("display(1)", "`from databricks.sdk.runtime import display`"),
        ("open('/Volumes/main/shop/raw/no.json')", 'Add `paths: {"/Volumes/main/shop/raw/": FOLDER}`'),
        ("import package_of_nobody.part", "Install the package that has `package_of_nobody`"),
        ("from .helpers import x", "Import the other one by its name: `import helpers`."),
        ("%run ./helpers", "Make that notebook a Python module, and import it."),
        ("%pip install x", "Install the package in the environment that runs Sluice"),
        ("import dlt\ndlt.expect_or_warn('a', 'b')", "Use `expect`, which keeps the rows"),
        ("from pyspark import pipelines as dp\ndp.create_stream_table('a')", "Did you mean `create_streaming_table`?"),
        ("raise ValueError('default auth: cannot configure default credentials')", "`spark` is a global"),
    ],
)
def test_an_error_of_databricks_habits_says_what_to_write_in_its_place(code: str, advice: str) -> None:
    """The advice names what exists here."""
    assert advice in (advice_for(_raised(code)) or "")


class JavaError:
    """An exception of the JVM, which Py4J refers to."""

    _target_id, _gateway_client = "o1", None

    def __init__(self, text: str) -> None:
        self.text = text

    def toString(self) -> str:  # noqa: N802 - Java's name
        """The class and the message."""
        return self.text


def test_a_path_in_a_string_with_json_says_how_to_parse_it() -> None:
    """Spark has no message for this error of Databricks' users: it reports an internal error."""
    text = "org.apache.spark.SparkException: [INTERNAL_ERROR] Cannot find main error class 'COLUMN_IS_NOT_VARIANT_TYPE'"
    assert "`parse_json(column):path`" in (advice_for(Py4JJavaError("", JavaError(text))) or "")
    assert advice_for(Py4JJavaError("", JavaError("java.io.IOException: closed"))) is None


@pytest.mark.parametrize("code", ["1/0", "no_such_name", "def (:", "(1).real_part", "import dlt\ndlt.zzzz"])
def test_any_other_error_has_no_special_advice(code: str) -> None:
    """The exception itself says what is wrong."""
    assert advice_for(_raised(code)) is None
