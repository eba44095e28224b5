"""The global `spark` of functions given in Python: it exists only while their pipeline's code runs."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from framework.declare.session.session_global import lending, namespace_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_session: ContextVar[SparkSession | None] = ContextVar("session", default=None)


@dataclass(frozen=True)
class Session:
    """As much of a session as a namespace needs."""

    name: str


def session(name: str) -> SparkSession:
    """A session of that name."""
    return cast("SparkSession", Session(name))


def declare() -> None:
    """A function that declares datasets."""


class Declaring:
    """An object whose methods declare datasets."""

    def method(self) -> None:
        """As a bound method."""

    def __call__(self) -> None:
        """As an object."""


def test_every_shape_of_function_has_the_namespace_that_its_body_sees() -> None:
    """Functions, lambdas, closures, decorated and partial functions, methods and objects; builtins have none."""

    @functools.wraps(declare)
    def decorated() -> None:
        declare()

    shapes: list[Callable[[], object]] = [
        declare, decorated, lambda: None, functools.partial(declare), Declaring().method, Declaring(),
        functools.partial(Declaring().method),
    ]  # fmt: skip
    assert [namespace_of(shape) is globals() for shape in shapes] == [True] * len(shapes)
    assert namespace_of(dict) is None


def test_a_namespace_has_spark_during_the_block_and_its_own_afterwards() -> None:
    """Absent before, absent after; another value before, the same value after; nested blocks end with the outer one."""
    for before in ({}, {"spark": "mine"}):
        namespace: dict[str, Any] = dict(before)
        with lending([namespace], session("a"), _session.get):
            with lending([namespace], session("a"), _session.get):
                assert (namespace["spark"].name, repr(namespace["spark"])) == ("a", "Session(name='a')")
                assert isinstance(namespace["spark"], Session)
            assert namespace["spark"].name == "a"
        assert namespace == before


def test_a_name_that_the_code_binds_itself_stays() -> None:
    """`global spark` in a function is the user's own."""
    namespace: dict[str, Any] = {}
    with lending([namespace], session("a"), _session.get):
        namespace["spark"] = "mine"
    assert namespace == {"spark": "mine"}


def test_two_pipelines_that_share_a_namespace_each_see_their_own_session() -> None:
    """They overlap in two threads, end in the order of their start, and leave nothing behind."""
    namespace: dict[str, Any] = {}
    seen: dict[str, list[str]] = {"a": [], "b": []}
    both_in, first_out = threading.Barrier(2), threading.Event()

    def run(name: str) -> None:
        _session.set(session(name))
        with lending([namespace], session(name), _session.get):
            both_in.wait(60)
            seen[name].append(namespace["spark"].name)
            both_in.wait(60)
            if name == "b":
                first_out.wait(60)
                seen[name].append(namespace["spark"].name)
        first_out.set()

    threads = [threading.Thread(target=run, args=(name,)) for name in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (seen, namespace) == ({"a": ["a"], "b": ["b", "b"]}, {})
