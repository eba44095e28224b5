"""Hadoop's file system of a workspace's paths: it has the files of other folders and buckets under the author's names.

Whatever Spark and Delta store and show of a path is its name in the workspace: a source is the same one after the map
has changed. Hadoop's own mount tables name a table by the authority alone, so `s3://b` and `gs://b` would be one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.declare.workspace.path_map import MAPPED, PathMap
from framework.engine.files.hadoop_configuration import common_file_system_class
from framework.engine.jvm.java_definitions import add_jar, gateway_of
from framework.session.java_classes import JavaClasses
from framework.session.settings import local_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE = """
package sluice;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.*;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

public class MappedFiles extends FileSystem {
    private URI name;
    private String[] prefixes;
    private String[] targets;
    private String schemes;
    private Path folder;
    private FileSystem own;

    public String getScheme() { return name == null ? "mapped" : name.getScheme(); }
    public URI getUri() { return name; }

    public void initialize(URI uri, Configuration configuration) throws IOException {
        super.initialize(uri, configuration);
        setConf(configuration);
        String authority = uri.getAuthority() == null ? "" : uri.getAuthority();
        name = URI.create(uri.getScheme() + "://" + authority + (authority.isEmpty() ? "/" : ""));
        String[] lines = configuration.getRaw("fs.sluice.paths").split("\\n");
        prefixes = new String[lines.length];
        targets = new String[lines.length];
        schemes = "";
        for (int i = 0; i < lines.length; i++) {
            int tab = lines[i].indexOf('\\t');
            prefixes[i] = lines[i].substring(0, tab);
            targets[i] = lines[i].substring(tab + 1);
            schemes += " " + prefixes[i].substring(0, prefixes[i].indexOf(':')) + " ";
        }
        folder = new Path(name.getScheme() + "://" + authority + "/");
    }

    private static String text(Path path) {
        URI uri = path.toUri();
        return uri.getScheme() + ":" + (uri.getAuthority() == null ? "" : "//" + uri.getAuthority()) + uri.getPath();
    }

    // A name may have a colon, which is no end of a scheme then.
    private static Path below(Path path, String name) { return new Path(path, new Path(null, null, name)); }

    private Path target(Path path) throws IOException {
        String text = text(makeQualified(path));
        for (int i = 0; i < prefixes.length; i++) {
            String prefix = prefixes[i];
            if (text.equals(prefix) || text.startsWith(prefix + "/")) {
                String rest = text.substring(prefix.length());
                while (rest.startsWith("/")) rest = rest.substring(1);
                return rest.isEmpty() ? new Path(targets[i]) : below(new Path(targets[i] + "/"), rest);
            }
        }
        return path;
    }

    private FileSystem system(Path target) throws IOException {
        String scheme = target.toUri().getScheme();
        if (scheme == null || !schemes.contains(" " + scheme + " ")) return target.getFileSystem(getConf());
        // The map is used once: a target of a mapped scheme is what it was without the map.
        String original = getConf().get("fs.sluice." + scheme + ".impl");
        if (original == null) throw new UnsupportedFileSystemException("No FileSystem for scheme \\"" + scheme + "\\"");
        if (own == null || !own.getUri().equals(URI.create(scheme + "://" + target.toUri().getAuthority()))) {
            try {
                own = (FileSystem) getConf().getClassByName(original).newInstance();
            } catch (Exception error) {
                throw new IOException(error);
            }
            own.initialize(target.toUri(), getConf());
        }
        return own;
    }

    private FileStatus named(FileStatus found, Path path) {
        return new FileStatus(found.getLen(), found.isDirectory(), found.getReplication(), found.getBlockSize(),
            found.getModificationTime(), path);
    }

    public FSDataInputStream open(Path path, int size) throws IOException {
        Path target = target(path);
        return system(target).open(target, size);
    }
    public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int size, short copies,
            long block, Progressable progress) throws IOException {
        Path target = target(path);
        return system(target).create(target, permission, overwrite, size, copies, block, progress);
    }
    public FSDataOutputStream createNonRecursive(Path path, FsPermission permission, EnumSet flags, int size,
            short copies, long block, Progressable progress) throws IOException {
        Path target = target(path);
        return system(target).createNonRecursive(target, permission, flags, size, copies, block, progress);
    }
    public FSDataOutputStream append(Path path, int size, Progressable progress) throws IOException {
        Path target = target(path);
        return system(target).append(target, size, progress);
    }
    public boolean rename(Path from, Path to) throws IOException {
        Path source = target(from), target = target(to);
        FileSystem system = system(source);
        if (!system.getUri().equals(system(target).getUri())) {
            throw new IOException(from + " and " + to + " are on different file systems");
        }
        return system.rename(source, target);
    }
    public boolean delete(Path path, boolean recursive) throws IOException {
        Path target = target(path);
        return system(target).delete(target, recursive);
    }
    public FileStatus[] listStatus(Path path) throws IOException {
        Path target = target(path);
        FileStatus[] found;
        try {
            found = system(target).listStatus(target);
        } catch (FileNotFoundException error) {
            throw new FileNotFoundException("File " + path + " does not exist");
        }
        boolean file = found.length == 1 && !found[0].isDirectory() && system(target).getFileStatus(target).isFile();
        FileStatus[] named = new FileStatus[found.length];
        for (int i = 0; i < found.length; i++) {
            Path one = file ? path : below(path, found[i].getPath().getName());
            named[i] = named(found[i], makeQualified(one));
        }
        return named;
    }
    public FileStatus getFileStatus(Path path) throws IOException {
        Path target = target(path);
        try {
            return named(system(target).getFileStatus(target), makeQualified(path));
        } catch (FileNotFoundException error) {
            throw new FileNotFoundException("File " + path + " does not exist");
        }
    }
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        Path target = target(path);
        return system(target).mkdirs(target, permission);
    }
    public Path getWorkingDirectory() { return folder; }
    public void setWorkingDirectory(Path path) { folder = path; }

    public static class Context extends DelegateToFileSystem {
        public Context(URI uri, Configuration configuration) throws Exception {
            super(uri, new MappedFiles(), configuration, uri.getScheme(), false);
        }
        public int getUriDefaultPort() { return -1; }
        public boolean isValidName(String name) { return true; }
    }
}
"""
_JAVA = JavaClasses(names=("MappedFiles", "MappedFiles$Context"), source=_SOURCE)


def mapped_file_settings(spark: SparkSession, paths: PathMap) -> dict[str, str]:
    """Return the settings by which a session reads and writes the paths of a map; {} for a map without entries.

    Args:
        spark: a session of the JVM, which gets the classes.
        paths: the map.
    """
    if not paths.entries:
        return {}
    gateway = gateway_of(spark)
    _JAVA.define_once(gateway)
    if local_cores(spark.sparkContext.master or "", 1) is None:
        add_jar(spark, _JAVA.jar(gateway))
    found = {"fs.sluice.paths": paths.text()}
    for scheme in paths.schemes:
        original = common_file_system_class(spark, scheme)
        found |= {
            f"fs.{scheme}.impl": MAPPED,
            f"fs.{scheme}.impl.disable.cache": "true",  # Hadoop's cache ignores settings: another pipeline has its own
            f"fs.AbstractFileSystem.{scheme}.impl": f"{MAPPED}$Context",
            **({} if original is None else {f"fs.sluice.{scheme}.impl": original}),
        }
    return found
