"""Java classes compiled by Spark's own compiler and defined in the class path's class loader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.engine.jvm.java_errors import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compile_classes(gateway: Any, source: str, names: Sequence[str]) -> list[bytes]:
    """Compile a source, and return the code of its classes by their full names.

    Args:
        gateway: PySpark's gateway to the JVM.
        source: the source.
        names: the full names of the classes.

    Raises:
        Py4JError: the source can't be compiled.
    """
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(gateway.jvm.java.lang.ClassLoader.getSystemClassLoader())
    compiler.cook(source)
    compiled = compiler.getBytecodes()
    return [bytes(compiled.get(name)) for name in names]


def are_defined(gateway: Any, names: Sequence[str]) -> bool:
    """Return whether the class path's loader has all classes with these full names."""
    java = gateway.jvm.java.lang
    loader = java.ClassLoader.getSystemClassLoader()
    try:
        for name in names:
            java.Class.forName(name, False, loader)  # noqa: FBT003 - a Java call
    except Py4JError:
        return False
    return True


def define_classes(gateway: Any, names: Sequence[str], code: Sequence[bytes]) -> None:
    """Define classes in the class path's loader, where Hadoop looks them up by name.

    Raises:
        Py4JError: a class can't be defined, for example because it is already defined.
    """
    java = gateway.jvm.java.lang
    types = gateway.new_array(java.Class, 4)
    number = java.Integer.TYPE
    for index, each in enumerate((java.Class.forName("java.lang.String"), java.Class.forName("[B"), number, number)):
        types[index] = each
    define = java.Class.forName("java.lang.ClassLoader").getDeclaredMethod("defineClass", types)
    define.setAccessible(True)
    for name, each in zip(names, code, strict=True):
        arguments = gateway.new_array(java.Object, 4)
        for index, value in enumerate((name, bytearray(each), 0, len(each))):
            arguments[index] = value
        define.invoke(java.ClassLoader.getSystemClassLoader(), arguments)


def gateway_of(spark: SparkSession) -> Any:
    """Return PySpark's gateway of a session."""
    return spark.sparkContext._gateway


def add_jar(spark: SparkSession, path: Path) -> None:
    """Send a jar to the executors of a session."""
    spark.sparkContext._jsc.addJar(str(path))
