"""Local files without processes: Hadoop starts `chmod` and `readlink` for each file that Spark and Delta write.

Hadoop's native library is no part of PySpark. Without it, Hadoop runs programs of the system to set permissions and to
look for links, with 5 ms of CPU time each; a small update has some hundred. The classes here do both in Java. They
extend Hadoop's own, so that checksums, renames and all else are the same. Spark's own compiler compiles them once for
each user, and the cache keeps the result.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from framework.engine.jvm.java_errors import Py4JError
from framework.session.java_classes import JavaClasses

_FILE_SYSTEM, _FILE_CONTEXT = "spark.hadoop.fs.file.impl", "spark.hadoop.fs.AbstractFileSystem.file.impl"
_NAMES = ("LocalFiles", "LocalFiles$Raw", "LocalFiles$Checked", "LocalFiles$RawContext", "LocalFiles$Context")
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
_JAVA = JavaClasses(names=_NAMES, source=_SOURCE)


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
        _JAVA.define(gateway)
        return {_FILE_SYSTEM: "sluice.LocalFiles$Checked", _FILE_CONTEXT: "sluice.LocalFiles$Context"}
    return {}
