"""The types of PostgreSQL whose values are objects of its catalog."""

from __future__ import annotations

NAMED_OBJECT_TYPES = frozenset(
    {
        "regclass",
        "regcollation",
        "regconfig",
        "regdictionary",
        "regnamespace",
        "regoper",
        "regoperator",
        "regproc",
        "regprocedure",
        "regrole",
        "regtype",
    }
)
"""Types whose text is the present name of an object, or the number of a dropped object."""
