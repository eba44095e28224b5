"""The workspace's files: import, export, list, mkdirs, delete, with the service's errors."""

from __future__ import annotations

import base64
import posixpath
from typing import Any

from framework.testing.workspace.exchange import Request, ServiceFault, invalid, missing

_MOST_BYTES = 10 * 1024 * 1024


class WorkspaceFiles:
    """Files and folders by absolute path."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.folders: set[str] = {"/", "/Workspace", "/Workspace/Users", "/Workspace/Shared"}

    def import_file(self, request: Request) -> dict[str, Any]:
        """Write a file; its folder must exist, and the file must not exist unless `overwrite` is set."""
        path = _absolute(request.body["path"])
        if posixpath.dirname(path) not in self.folders:
            raise missing("The parent folder", posixpath.dirname(path))
        if path in self.files and not request.body.get("overwrite"):
            raise ServiceFault(400, "RESOURCE_ALREADY_EXISTS", f"Path ({path}) already exists.")
        content = base64.b64decode(request.body.get("content", ""))
        if len(content) > _MOST_BYTES:
            raise ServiceFault(400, "MAX_NOTEBOOK_SIZE_EXCEEDED", "The content is larger than 10 MB.")
        self.files[path] = content
        return {}

    def export_file(self, request: Request) -> dict[str, Any]:
        """Read a file, in Base64."""
        path = _absolute(request.query["path"])
        if path not in self.files:
            raise missing("Path", path)
        return {"content": base64.b64encode(self.files[path]).decode("ascii"), "file_type": "auto"}

    def list_folder(self, request: Request) -> dict[str, Any]:
        """List a folder."""
        path = _absolute(request.query["path"])
        if path not in self.folders:
            raise missing("Path", path)
        inner = [{"path": name, "object_type": "FILE"} for name in self.files if posixpath.dirname(name) == path]
        inner += [
            {"path": name, "object_type": "DIRECTORY"}
            for name in self.folders
            if name != path and posixpath.dirname(name) == path
        ]
        return {"objects": sorted(inner, key=lambda entry: entry["path"])} if inner else {}

    def make_folders(self, request: Request) -> dict[str, Any]:
        """Create a folder and its parents."""
        path = _absolute(request.body["path"])
        while path not in self.folders:
            if path in self.files:
                raise ServiceFault(400, "RESOURCE_ALREADY_EXISTS", f"Path ({path}) is a file.")
            self.folders.add(path)
            path = posixpath.dirname(path)
        return {}

    def delete(self, request: Request) -> dict[str, Any]:
        """Delete a file or an empty folder; with `recursive` a folder with its contents."""
        path = _absolute(request.body["path"])
        if path not in self.files and path not in self.folders:
            raise missing("Path", path)
        inner = [name for name in (*self.files, *self.folders) if name.startswith(path + "/")]
        if inner and not request.body.get("recursive"):
            raise ServiceFault(400, "DIRECTORY_NOT_EMPTY", f"Folder ({path}) is not empty.")
        for name in [path, *inner]:
            self.files.pop(name, None)
            self.folders.discard(name)
        return {}

    def status(self, request: Request) -> dict[str, Any]:
        """Return the kind of object at a path."""
        path = _absolute(request.query["path"])
        if path in self.files:
            return {"path": path, "object_type": "FILE", "object_id": abs(hash(path)) % 10**9}
        if path in self.folders:
            return {"path": path, "object_type": "DIRECTORY", "object_id": abs(hash(path)) % 10**9}
        raise missing("Path", path)


def _absolute(path: str) -> str:
    """Return a path with `/Workspace`; the service accepts it with and without."""
    if not path.startswith("/"):
        raise invalid(f"Path ({path}) doesn't start with '/'.")
    whole = posixpath.normpath(path)
    return whole if whole == "/" or whole.split("/")[1] == "Workspace" else "/Workspace" + whole
