"""Functions of a pipeline run in Python workers, which have neither its files nor its session, nor Sluice."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from framework.declare.modules.pipeline_imports import PipelineImports
from framework.declare.pipeline_spec import PipelineSpec

WORKER = """
import pickle, sys
sys.modules["framework"] = None
while sys.stdin.buffer.peek(1):
    try:
        print(pickle.load(sys.stdin.buffer)(2))
    except Exception as error:
        print(type(error).__name__)
"""


class DriverOnly:
    """A session: it exists on the driver only."""

    def __reduce__(self) -> Any:
        msg = "on the driver only"
        raise RuntimeError(msg)


def pickled(folder: Path, files: dict[str, str], functions: str = "prices.price") -> bytes:
    """Return the pickles of functions of a pipeline with these files, which are written now."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    spec = PipelineSpec(name="p", storage="s")
    imports = PipelineImports([folder], DriverOnly(), spec)  # type: ignore[arg-type]  # stands in for a session
    with imports.importable():
        named = (function.rpartition(".") for function in functions.split())
        return b"".join(cloudpickle.dumps(getattr(importlib.import_module(name), own)) for name, _, own in named)


def results(*pickles: bytes) -> list[str]:
    """Return what the functions return for 2, in one worker, or the exceptions they raise."""
    worker = [sys.executable, "-c", WORKER]
    done = subprocess.run(worker, input=b"".join(pickles), cwd="/", env={}, capture_output=True, check=True)
    return done.stdout.decode().split()


def test_a_function_that_refers_to_a_module_of_the_pipeline_is_sent_with_it(tmp_path: Path) -> None:
    """`import rates; rates.rate(n)` works in a Python worker."""
    rates = "FACTOR = 3\n\ndef rate(n):\n    return n * FACTOR\n"
    prices = "import rates\n\ndef price(n):\n    return rates.rate(n) + 1\n"
    assert results(pickled(tmp_path, {"rates.py": rates, "prices.py": prices})) == ["7"]


def test_a_module_is_sent_without_what_exists_on_the_driver_only(tmp_path: Path) -> None:
    """Sessions, locks and UDFs, functions that use them, and declarations; the module may refer to itself."""
    rates = """
import threading
import rates
from framework import pipelines as dp
from pyspark.sql.functions import udf
from pyspark.sql.types import LongType

FACTOR, LOCK = 3, threading.Lock()

@udf(LongType())
def tripled(n):
    return n * FACTOR

def read():
    return spark.read.table(str(tripled))

def declare():
    dp.create_streaming_table("t")

def rate(n):
    return n * rates.FACTOR
"""
    prices = """
import rates

def price(n):
    return rates.rate(n) + 1

def names(n):
    return ",".join(sorted({"FACTOR", "LOCK", "declare", "dp", "rate", "read", "tripled"} & set(vars(rates))))
"""
    sent = pickled(tmp_path, {"rates.py": rates, "prices.py": prices}, "prices.price prices.names")
    assert results(sent) == ["7", "FACTOR,rate"]


def test_a_function_that_imports_modules_of_the_pipeline_when_it_runs_is_sent_with_them(tmp_path: Path) -> None:
    """In all forms of the statement; of packages, also without `__init__.py`; and by a function that it calls."""
    files = {
        "late.py": "STEP = 1\n",
        "package/__init__.py": "",
        "package/deep.py": "def step():\n    from .sub import STEP\n    return STEP\n",
        "package/sub.py": "STEP = 10\n",
        "folder/inner.py": "import late\n\nSTEP = 99 + late.STEP\n",
        "prices.py": """
import package.deep

def plain(n):
    import late
    return n + late.STEP

def named(n):
    from late import STEP as step
    def inner():
        import package.sub as sub
        return sub.STEP
    return n + step + inner()

def dotted(n):
    import package.sub
    return n + package.sub.STEP

def from_package(n):
    from package import sub
    return n + sub.STEP

def called(n):
    return n + package.deep.step()

def from_folder(n):
    import folder.inner
    from folder import inner
    return n + inner.STEP + folder.inner.STEP

def missing(n):
    import nothing_of_this_name
""",
    }
    functions = "plain named dotted from_package called from_folder missing"
    sent = pickled(tmp_path, files, " ".join(f"prices.{name}" for name in functions.split()))
    assert results(sent) == ["3", "13", "12", "12", "12", "202", "ModuleNotFoundError"]


def test_a_module_that_fails_fails_where_the_function_is_sent(tmp_path: Path) -> None:
    """With its own exception, although the function imports it only when it runs."""
    with pytest.raises(ZeroDivisionError):
        pickled(tmp_path, {"prices.py": "def price(n):\n    import rates\n", "rates.py": "1 / 0\n"})


def test_a_worker_that_has_run_a_function_imports_the_changed_module(tmp_path: Path) -> None:
    """Spark uses its workers again; a module of the same name may be one of another pipeline, too."""
    prices = "def price(n):\n    import rates\n    return n * rates.FACTOR\n"
    first = pickled(tmp_path, {"prices.py": prices, "rates.py": "FACTOR = 1\n"})
    second = pickled(tmp_path, {"rates.py": "FACTOR = 2\n"})
    assert results(first, second, first) == ["2", "4", "2"]
