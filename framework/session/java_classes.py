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

from framework.engine.jvm.java_definitions import are_defined, compile_classes, define_classes
from framework.engine.jvm.java_errors import Py4JError
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
        define_classes(gateway, self._full_names, kept_code(self.cache, self.names) or self._compile(gateway))

    def define_once(self, gateway: Any) -> None:
        """Define the classes in a JVM that may have them."""
        if are_defined(gateway, self._full_names):
            return
        try:
            self.define(gateway)
        except Py4JError:
            if not are_defined(gateway, self._full_names):  # another process may use the same JVM
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
        """The file of the compiled code; the classes are linked with Hadoop's classes of this PySpark."""
        digest = hashlib.sha256(f"{pyspark.__version__}\n{self.source}".encode()).hexdigest()
        return cache_folder() / "java" / f"{digest[:24]}.json"

    @property
    def _full_names(self) -> list[str]:
        return [f"{_PACKAGE}.{name}" for name in self.names]

    def _compile(self, gateway: Any) -> list[bytes]:
        code = compile_classes(gateway, self.source, self._full_names)
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
