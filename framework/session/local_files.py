"""Local files without processes: Hadoop starts `chmod` and `readlink` for each file that Spark and Delta write.

Hadoop's native library is no part of PySpark. Without it, Hadoop runs programs of the system to set permissions and to
look for links, with 5 ms of CPU time each; a small update has some hundred. The classes here do both in Java. They
extend Hadoop's own, so that checksums, renames and all else are the same. Spark's own compiler compiles them once for
each user, and the cache keeps the result.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError

from framework.foundation.private_files import exposure, make_private_folder, write_private_file
from framework.session.jars import cache_folder

_FILE_SYSTEM, _FILE_CONTEXT = "spark.hadoop.fs.file.impl", "spark.hadoop.fs.AbstractFileSystem.file.impl"
_PACKAGE = "sluice"
# In the order of their definition: a class comes after the one that it extends or creates.
_CLASSES = ("LocalFiles", "LocalFiles$Raw", "LocalFiles$Checked", "LocalFiles$RawContext", "LocalFiles$Context")
_SOURCE = """
package sluice;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.*;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles {
    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            java.nio.file.Path file = pathToFile(path).toPath();
            // A new folder in a shared one has its group and its setgid bit: chmod keeps the bit, Java removes it.
            int special = 07000 & ((Integer) Files.getAttribute(file, "unix:mode")).intValue();
            if (special != 0 || permission.getStickyBit()) {
                super.setPermission(path, permission);
                return;
            }
            Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permission.toString()));
        }
        public FileStatus getFileLinkStatus(Path path) throws IOException {
            boolean link = Files.isSymbolicLink(pathToFile(path).toPath());
            return link ? super.getFileLinkStatus(path) : getFileStatus(path);
        }
    }
    public static class Checked extends LocalFileSystem {
        public Checked() { super(new Raw()); }
    }
    public static class RawContext extends DelegateToFileSystem {
        public RawContext(URI uri, Configuration configuration) throws Exception {
            super(uri, new Raw(), configuration, "file", false);
        }
        public int getUriDefaultPort() { return -1; }
        public boolean isValidName(String name) { return true; }
    }
    public static class Context extends ChecksumFs {
        public Context(URI uri, Configuration configuration) throws Exception {
            super(new RawContext(uri, configuration));
        }
    }
}
"""


def local_file_settings(gateway: Any, settings: Mapping[str, str]) -> dict[str, str]:
    """Define the classes in a JVM that has no context yet, and return the settings that select them.

    Args:
        gateway: PySpark's gateway to the JVM.
        settings: the session's settings. With an implementation of the user's, nothing is done.

    Returns:
        the two settings; {} if the classes can't be defined: then the files are Hadoop's own, and only slower.
    """
    if os.name != "posix" or _FILE_SYSTEM in settings or _FILE_CONTEXT in settings:
        return {}
    with suppress(Py4JError, OSError):
        # Classes are linked with those of Hadoop that this PySpark brings.
        digest = hashlib.sha256(f"{pyspark.__version__}\n{_SOURCE}".encode()).hexdigest()
        kept = cache_folder() / "java" / f"{digest[:24]}.json"
        _define(gateway, kept_code(kept) or _compile(gateway, kept))
        return {
            _FILE_SYSTEM: f"{_PACKAGE}.LocalFiles$Checked",
            _FILE_CONTEXT: f"{_PACKAGE}.LocalFiles$Context",
        }
    return {}


def kept_code(path: Path) -> list[bytes] | None:
    """The code of the classes as an earlier session compiled it; None if there is none that is whole and safe."""
    if exposure(cache_folder(), path):
        return None
    try:
        kept = json.loads(path.read_text("ascii"))
        return [base64.b64decode(kept[name], validate=True) for name in _CLASSES]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _compile(gateway: Any, path: Path) -> list[bytes]:
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(gateway.jvm.java.lang.ClassLoader.getSystemClassLoader())
    compiler.cook(_SOURCE)
    compiled = compiler.getBytecodes()
    code = [bytes(compiled.get(f"{_PACKAGE}.{name}")) for name in _CLASSES]
    kept = {name: base64.b64encode(each).decode("ascii") for name, each in zip(_CLASSES, code, strict=True)}
    with suppress(OSError):  # a cache that can't be written costs the next session half a second
        make_private_folder(path.parent)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.unlink(missing_ok=True)
        write_private_file(partial, json.dumps(kept))
        partial.replace(path)
    return code


def _define(gateway: Any, code: list[bytes]) -> None:
    """Define the classes in the loader of the class path, where Hadoop looks for them by name."""
    java = gateway.jvm.java.lang
    types = gateway.new_array(java.Class, 4)
    number = java.Integer.TYPE
    for index, each in enumerate((java.Class.forName("java.lang.String"), java.Class.forName("[B"), number, number)):
        types[index] = each
    define = java.Class.forName("java.lang.ClassLoader").getDeclaredMethod("defineClass", types)
    define.setAccessible(True)
    for name, each in zip(_CLASSES, code, strict=True):
        arguments = gateway.new_array(java.Object, 4)
        for index, value in enumerate((f"{_PACKAGE}.{name}", bytearray(each), 0, len(each))):
            arguments[index] = value
        define.invoke(java.ClassLoader.getSystemClassLoader(), arguments)
