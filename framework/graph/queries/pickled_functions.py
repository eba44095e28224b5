"""The Python functions that an analysed query runs on rows, as texts that change with their code and values.

The identity of the modules that a function names is a part of its text.
"""

from __future__ import annotations

from typing import Any

from framework.declare.session.pickled_text import pickled_text
from framework.engine.plans.plans import python_functions
from framework.engine.plans.sent_functions import command_of
from framework.graph.queries.imported_modules import module_identity


def pickled_functions(plan: Any) -> list[bytes]:
    """Return the pickled Python functions in an analysed plan, in the order of the plan."""
    return [command_of(each) for each in python_functions(plan)]


def function_names(plan: Any) -> tuple[str, ...]:
    """Return the names of the Python functions in an analysed plan, each once, in the order of the plan."""
    return tuple(dict.fromkeys(str(each.name()) for each in python_functions(plan)))


def function_text(pickled: bytes) -> str | None:
    """Return a text of a pickle that is the same for equal functions in any process.

    None if a value, or the code of a module, is unknown.
    """
    found = pickled_text(pickled)
    if found is None:
        return None
    identities = [module_identity(top) for top in sorted({name.partition(".")[0] for name in found.modules})]
    known = [each for each in identities if each is not None]
    return "\n".join([found.text, *known]) if len(known) == len(identities) else None
