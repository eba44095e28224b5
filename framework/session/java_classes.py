"""Classes of Java that are compiled by Spark's own compiler, once for each user, and defined in a JVM.

The cache keeps the code: a JVM of a later session only defines it.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError

from framework.foundation.files.private_files import exposure, make_private_folder, write_private_file
from framework.session.jars import cache_folder

_PACKAGE = "sluice"


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaClasses:
    """Classes of one source.

    Args:
        names: their names in the package `sluice`; a class comes after the one that it extends or creates.
        source: the source of all of them.
    """

    names: tuple[str, ...]
    source: str

    def define(self, gateway: Any) -> None:
        """Define the classes in the loader of the class path, where Hadoop looks for them by name.

        Args:
            gateway: PySpark's gateway to the JVM.

        Raises:
            Py4JError, OSError: they can't be compiled or defined, such as a second time.
        """
        _define(gateway, self.names, kept_code(self.cache, self.names) or self._compile(gateway))

    def define_once(self, gateway: Any) -> None:
        """Define the classes in a JVM that may have them."""
        if self._is_defined(gateway):
            return
        try:
            self.define(gateway)
        except Py4JError:
            if not self._is_defined(gateway):  # another process may use the same JVM
                raise

    def jar(self, gateway: Any) -> Path:
        """Return a jar of the classes in the cache, for the executors of a cluster."""
        path = self.cache.with_suffix(".jar")
        if not path.is_file() or exposure(cache_folder(), path):
            content = io.BytesIO()
            with zipfile.ZipFile(content, "w") as jar:
                code = kept_code(self.cache, self.names) or self._compile(gateway)
                for name, each in zip(self.names, code, strict=True):
                    jar.writestr(f"{_PACKAGE}/{name}.class", each)
            make_private_folder(path.parent)
            partial = path.with_name(f"{path.name}.{os.getpid()}")
            partial.write_bytes(content.getvalue())
            partial.replace(path)
        return path

    @property
    def cache(self) -> Path:
        """The file that keeps the code; classes are linked with those of Hadoop that this PySpark brings."""
        digest = hashlib.sha256(f"{pyspark.__version__}\n{self.source}".encode()).hexdigest()
        return cache_folder() / "java" / f"{digest[:24]}.json"

    def _is_defined(self, gateway: Any) -> bool:
        java = gateway.jvm.java.lang
        loader = java.ClassLoader.getSystemClassLoader()
        try:
            for name in self.names:
                java.Class.forName(f"{_PACKAGE}.{name}", False, loader)  # noqa: FBT003 - a Java call
        except Py4JError:
            return False
        return True

    def _compile(self, gateway: Any) -> list[bytes]:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(gateway.jvm.java.lang.ClassLoader.getSystemClassLoader())
        compiler.cook(self.source)
        compiled = compiler.getBytecodes()
        code = [bytes(compiled.get(f"{_PACKAGE}.{name}")) for name in self.names]
        kept = {name: base64.b64encode(each).decode("ascii") for name, each in zip(self.names, code, strict=True)}
        with suppress(OSError):  # a cache that can't be written costs the next session half a second
            make_private_folder(self.cache.parent)
            partial = self.cache.with_name(f"{self.cache.name}.{os.getpid()}")
            partial.unlink(missing_ok=True)
            write_private_file(partial, json.dumps(kept))
            partial.replace(self.cache)
        return code


def kept_code(path: Path, names: tuple[str, ...]) -> list[bytes] | None:
    """Return the code of classes as an earlier session compiled it; None if there is none that is whole and safe."""
    if exposure(cache_folder(), path):
        return None
    try:
        kept = json.loads(path.read_text("ascii"))
        return [base64.b64decode(kept[name], validate=True) for name in names]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _define(gateway: Any, names: tuple[str, ...], code: list[bytes]) -> None:
    java = gateway.jvm.java.lang
    types = gateway.new_array(java.Class, 4)
    number = java.Integer.TYPE
    for index, each in enumerate((java.Class.forName("java.lang.String"), java.Class.forName("[B"), number, number)):
        types[index] = each
    define = java.Class.forName("java.lang.ClassLoader").getDeclaredMethod("defineClass", types)
    define.setAccessible(True)
    for name, each in zip(names, code, strict=True):
        arguments = gateway.new_array(java.Object, 4)
        for index, value in enumerate((f"{_PACKAGE}.{name}", bytearray(each), 0, len(each))):
            arguments[index] = value
        define.invoke(java.ClassLoader.getSystemClassLoader(), arguments)
