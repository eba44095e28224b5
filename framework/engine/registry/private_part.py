"""The shape of an entry of the registry."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

NONE = ""
"""There is no public alternative."""


class Product(Enum):
    """The product that a part belongs to."""

    SPARK = "Spark"
    DELTA = "Delta"
    PY4J = "Py4J"


TESTED: dict[Product, tuple[str, ...]] = {
    Product.SPARK: ("4.2.0",),
    Product.DELTA: ("4.4.0",),
    Product.PY4J: ("0.10.9.9",),
}
"""The versions that the test suite runs with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivatePart:
    """A class of the JVM or of Python, and its members that one module of the room uses.

    Args:
        module: the module of the room, without `framework.engine`.
        owner: the full name of the class, with `$` for a Scala object; in Python the module and the class.
        members: each method with its parameters, or a field; a constructor is only its parameters.
        product: the product that it belongs to.
        public_way: the public alternative for Sluice or a caller; `NONE` if there is none.
    """

    module: str
    owner: str
    members: tuple[str, ...]
    product: Product = Product.SPARK
    public_way: str = NONE

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members, without constructors.

        Examples:
            >>> part = PrivatePart(module="plans", owner="a.B", members=("(Plan)", "ofRows(SparkSession, Plan)", "MAP"))
            >>> part.names
            ('ofRows', 'MAP')
        """
        return tuple(name for member in self.members if (name := member.partition("(")[0]))

    @property
    def is_python(self) -> bool:
        """Return whether it is part of a Python package."""
        return self.owner.startswith(("pyspark.", "py4j."))
