"""The texts of pickled Python functions: equal for equal functions in any process, and for no others."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

from pyspark import cloudpickle

from framework.graph.queries.pickled_functions import function_text

MODULE = """
import enum, functools, re
from decimal import Decimal

LIMIT, KNOWN, TABLE, PATTERN = {limit}, {{"a", "b", "c", "d", "e"}}, {{1: [2]}}, re.compile("a+")

class Colour(enum.Enum):
    RED = 1
    BLUE = 2

class Type(type):
    pass

class Rule(metaclass=Type):
    factor = {factor}

    def __init__(self, least):
        self.least = least

    def keeps(self, value):
        return value > self.least + {step}

RULE = Rule(LIMIT)
SETS = [{{Colour.BLUE, Colour.RED}}, {{Rule(1), Rule(2), Rule(3)}}, frozenset({{(Rule, 1), (Colour, 2)}})]

def base(value, by=Decimal(2)):
    return RULE.keeps(value) or value in {{"q", "r", "s", "t"}} or Colour.RED

part = functools.partial(base, by=3)

def run(value):
    return (lambda: (part(value), TABLE, KNOWN, SETS, PATTERN, Rule))()
"""
IN_A_PROCESS = "from tests.unit.graph.test_pickled_functions import text; import sys; sys.stdout.write(text())"


def text(*, before: str = "", file: str = "a.py", limit: int = 1, factor: int = 1, step: int = 1) -> str | None:
    """Return the text of `run`, as of a module with these values."""
    module = ModuleType("module_of_functions")
    sys.modules[module.__name__] = module
    cloudpickle.register_pickle_by_value(module)
    try:
        code = before + MODULE.format(limit=limit, factor=factor, step=step)
        exec(compile(code, file, "exec"), module.__dict__)  # noqa: S102 - our own text
        return function_text(cloudpickle.dumps((module.run, "type")))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
        del sys.modules[module.__name__]


def test_a_text_changes_with_code_and_values_and_not_with_the_process_or_the_place_of_the_code() -> None:
    """Values, class attributes and code of methods count; random ids, the order of sets, files and lines do not."""
    texts = [text(), text(limit=2), text(factor=2), text(step=2)]
    assert None not in texts
    assert len(set(texts)) == len(texts)
    assert text(before="\n\n", file="b.py") == texts[0]
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        found = subprocess.run(
            [sys.executable, "-c", IN_A_PROCESS], capture_output=True, text=True, check=True, env=environment
        )
        assert found.stdout == texts[0]


def test_a_function_whose_values_are_not_in_its_pickle_has_no_text() -> None:
    """The pickle of a broadcast value has only its number in this process."""
    assert function_text(b"cpyspark.core.broadcast\n_from_id\n(I7\ntR.") is None
