"""Local files of the tests' session without processes: Hadoop starts `chmod` and `readlink` for each.

Hadoop's native library is not part of PySpark. Without it, Hadoop runs programs of the system to set permissions and to
look for links, with some 5 ms of CPU time each. The classes below do both in Java. They extend Hadoop's own, so that
checksums, renames and all else are the same (`tests/spark/test_local_files.py`). The processes that tests start have
Hadoop's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = "sluice.tests"
# In the order of their definition: a class comes after the one that it extends or creates.
_CLASSES = ("LocalFiles", "LocalFiles$Raw", "LocalFiles$Checked", "LocalFiles$RawContext", "LocalFiles$Context")
_SOURCE = """
package sluice.tests;

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
            String text = permission.toString();
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
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


def handle_local_files_in_java(spark: SparkSession) -> None:
    """Have a session's JVM set permissions and look for links by itself."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(_SOURCE)
    compiled = compiler.getBytecodes()
    classes, number = jvm.java.lang.Class, jvm.java.lang.Integer.TYPE
    types = gateway.new_array(classes, 4)
    for index, each in enumerate((classes.forName("java.lang.String"), classes.forName("[B"), number, number)):
        types[index] = each
    # Tasks find classes by name in the loader of the class path, not in that of the compiler.
    define = classes.forName("java.lang.ClassLoader").getDeclaredMethod("defineClass", types)
    define.setAccessible(True)
    for name in _CLASSES:
        code = compiled.get(f"{_PACKAGE}.{name}")
        arguments = gateway.new_array(jvm.java.lang.Object, 4)
        for index, value in enumerate((f"{_PACKAGE}.{name}", code, 0, len(code))):
            arguments[index] = value
        define.invoke(loader, arguments)
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set("fs.file.impl", f"{_PACKAGE}.LocalFiles$Checked")
    configuration.set("fs.AbstractFileSystem.file.impl", f"{_PACKAGE}.LocalFiles$Context")
    systems = jvm.org.apache.hadoop.fs.FileSystem
    systems.closeAll()
    first = systems.get(jvm.java.net.URI("file:///"), configuration)  # kept for all callers
    assert first.getClass().getName() == f"{_PACKAGE}.LocalFiles$Checked"
