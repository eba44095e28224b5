"""The text of a pickled function, which changes with its code and its values.

Spark pickles the functions of a query, by value if they are the pipeline's own. Two processes pickle the same function
to different bytes: a class gets a random ID, and a set has no order. So the pickle is read as a tree; nothing is
imported or called. Functions of other modules are represented by their names.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

_CLOUDPICKLE = "pyspark.cloudpickle.cloudpickle"
# Arguments that differ for equal functions, by position: the file and line numbers of code, random IDs of classes.
_VARYING = {
    f"{_CLOUDPICKLE}._builtin_type('CodeType')": frozenset({10, 13, 14}),
    f"{_CLOUDPICKLE}._make_skeleton_class": frozenset({4}),
    f"{_CLOUDPICKLE}._make_skeleton_enum": frozenset({5}),
    f"{_CLOUDPICKLE}._make_typevar": frozenset({5}),
}
# A broadcast value: the pickle has only its number. `sent_functions` has the pickles of broadcast functions.
_ELSEWHERE = frozenset({"_from_id"})
# A module that the code of a function refers to.
_IMPORTS = frozenset({(_CLOUDPICKLE, "subimport"), ("importlib", "import_module")})

_CACHE_OF_PICKLE = "__slotnames__"  # a class has it once an object of it was pickled


class PickledText(NamedTuple):
    """The text of a pickle, and the modules whose content it does not have."""

    text: str
    modules: frozenset[str]


def pickled_text(pickled: bytes) -> PickledText | None:
    """Return a text of a pickle that is the same for equal functions in any process; None if a value is unknown."""
    reader = _Reader(io.BytesIO(pickled))
    try:
        text = _Text().of(reader.load())
    except (pickle.UnpicklingError, RecursionError, AttributeError, TypeError):  # a stand-in can't replace an object
        return None
    return PickledText(text, frozenset(reader.modules))


class _Made:
    """A value that a pickle creates by a call, with all that the pickle does to it."""

    name = ""
    parts: list[Any]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        made = super().__new__(cls)
        made.parts = [_constant(cls.name, args), options]
        if args and isinstance(args[0], _Made):  # it may set the state of its argument
            args[0].parts.append((cls.name, made.parts[0][1:]))
        return made

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the arguments, which `__new__` has recorded."""

    def __call__(self, *args: Any) -> _Made:
        """Return the value of a call of a created function, or an object of a created class."""
        name = f"{self.name}({', '.join(map(repr, self.parts[0]))})"
        if name in _VARYING:
            varying: _Made = _class(name)(*args)
            return varying
        made: _Made = _class("object")()
        made.parts = [self, args]
        if args and isinstance(args[0], _Made):  # as in `__new__`
            args[0].parts.append((self, args[1:]))
        return made

    def __setstate__(self, state: object) -> None:
        self.parts.append(state)

    def __setitem__(self, key: object, value: object) -> None:
        self.parts.append((key, value))

    def append(self, value: object) -> None:
        """Record an item of a list."""
        self.parts.append(value)

    def extend(self, values: Iterable[object]) -> None:
        """Record items of a list."""
        self.parts.extend(values)

    def add(self, value: object) -> None:
        """Record an item of a set."""
        self.parts.append({value})


class _Named(type):
    """The type of stand-ins for imports of a pickle; their text is the name of the import."""

    name: str

    def __repr__(cls) -> str:
        return f"<{cls.name}>"


def _class(name: str) -> Any:
    return _Named("_Made", (_Made,), {"name": name})


def _constant(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    varying = _VARYING.get(name, frozenset())
    return tuple(value for position, value in enumerate(args) if position not in varying)


def _new_object(reader: Any) -> None:
    args = reader.stack.pop()
    reader.append(reader.stack.pop()(*args))


def _new_object_with_options(reader: Any) -> None:
    options = reader.stack.pop()
    args = reader.stack.pop()
    reader.append(reader.stack.pop()(*args, options))


_Unpickler: Any = pickle._Unpickler  # noqa: SLF001 - in C, a class can't be a stand-in


class _Reader(_Unpickler):  # type: ignore[misc]
    """Reads a pickle without importing or calling anything."""

    dispatch: ClassVar = {
        **_Unpickler.dispatch,
        pickle.NEWOBJ[0]: _new_object,
        pickle.NEWOBJ_EX[0]: _new_object_with_options,
    }

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.modules: set[str] = set()
        """The modules whose content the pickle does not have."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return a stand-in for the global with this name."""
        if global_name in _ELSEWHERE:
            raise pickle.UnpicklingError(global_name)
        self.modules.add(module_name)
        found = _class(f"{module_name}.{global_name}")
        return partial(self._imported, found) if (module_name, global_name) in _IMPORTS else found

    def _imported(self, stand_in: Any, module: str) -> Any:
        self.modules.add(module)
        return stand_in(module)


class _Text:
    """The text of a tree of values; a repeated value is replaced with its number."""

    def __init__(self, seen: dict[int, int] | None = None) -> None:
        self._seen = {} if seen is None else seen

    def of(self, value: Any) -> str:
        """Return the text of a value."""
        if isinstance(value, tuple):
            return f"({','.join(map(self.of, value))})"
        if isinstance(value, set | frozenset):
            # All items start with the numbers given before the set, because their order differs between processes.
            return f"{{{','.join(sorted(_Text(dict(self._seen)).of(each) for each in value))}}}"
        if isinstance(value, list | dict | _Made):
            return self._of_shared(value)
        return repr(value)  # a constant, or a stand-in

    def _of_shared(self, value: list[Any] | dict[Any, Any] | _Made) -> str:
        """Return the text of a value that may contain itself."""
        if id(value) in self._seen:
            return f"#{self._seen[id(value)]}"
        self._seen[id(value)] = len(self._seen)
        if isinstance(value, list):
            return f"[{','.join(map(self.of, value))}]"
        if isinstance(value, dict):
            content = [f"{self.of(key)}:{self.of(each)}" for key, each in value.items() if key != _CACHE_OF_PICKLE]
            return f"{{{','.join(content)}}}"
        return f"{value.name}{self.of(tuple(value.parts))}"
