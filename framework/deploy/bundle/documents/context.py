"""Context of a bundle that all its settings may refer to: target, workspace paths, current user, Git repository.

The state of the repository is read from the files in `.git`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from framework.deploy.bundle.documents.nodes import Node, as_node
from framework.foundation.errors import UserError

_HOME = "/Workspace/Users/${workspace.current_user.userName}/.bundle/${bundle.name}/${bundle.target}"
_PATHS = (
    ("root_path", _HOME),
    ("state_path", "${workspace.root_path}/state"),
    ("file_path", "${workspace.root_path}/files"),
    ("artifact_path", "${workspace.root_path}/artifacts"),
    ("resource_path", "${workspace.root_path}/resources"),
)
# Settings of the format that Sluice does not support; to ignore them would deploy something else than the bundle.
_UNSUPPORTED = (
    ("python",),
    ("experimental", "python"),
    ("experimental", "scripts"),
    ("presets", "source_linked_deployment"),
    ("presets", "artifacts_dynamic_version"),
    ("experimental", "immutable_folder"),
    ("experimental", "pydabs"),
    ("experimental", "python_wheel_wrapper"),
    ("experimental", "use_legacy_run_as"),
    ("bundle", "cluster_id"),
    ("bundle", "compute_id"),
    ("cluster_id",),
    ("compute_id",),
)
_URL = re.compile(r"^\s*url\s*=\s*(\S+)")
_CREDENTIALS = re.compile(r"^(\w+://)[^/@]*@")
_MAX_BYTES = 10_000_000


def short_name(user: str) -> str:
    """Return the part of a user name for names of resources, in lower case.

    Examples:
        >>> short_name("Ada.Lovelace@example.com"), short_name("ada--b.@example.com")
        ('ada_lovelace', 'ada_b')
    """
    return re.sub(r"[\W_]+", "_", user.partition("@")[0].lower()).strip("_")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceFields:
    """Values of a workspace, for a bundle that is read without one.

    Args:
        host: its address, if the bundle names none.
        user_id: the id of the current user.
    """

    host: str
    user_id: str


def with_context(
    tree: Node, *, target: str, user: str | None, git: GitState, workspace: WorkspaceFields | None = None
) -> Node:
    """Return the tree with `bundle.target`, `bundle.git`, the workspace, the current user and the default paths."""
    bundle = tree.get("bundle") or as_node({}, tree.location)
    written = tree.get("workspace") or as_node({}, tree.location)
    own = dict(written.entries("workspace"))
    if user is not None:
        known = {} if workspace is None else {"id": workspace.user_id}
        own["current_user"] = as_node(_user_fields(user) | known, written.location)
    if workspace is not None and written.get("host") is None:
        own["host"] = as_node(workspace.host, written.location)
    for key, default in _PATHS:
        if written.get(key) is None:
            own[key] = as_node(default, written.location)
        own[key] = _in_workspace(own[key])
    bundle = _with_git(bundle, git).with_entry("target", target).with_entry("environment", target)
    return tree.with_entry("bundle", bundle).with_entry("workspace", own)


def _user_fields(user: str) -> dict[str, str]:
    name = short_name(user)
    return {"userName": user, "short_name": name, "domain_friendly_name": re.sub(r"[\W_]", "-", name)}


def check_settings(tree: Node, *, target: str, user: str | None) -> None:
    """Check that Sluice supports the settings of a target.

    Raises:
        UserError: BUNDLE_SETTING_UNSUPPORTED; BUNDLE_VOLUME_PATH; BUNDLE_PATH_SHARED if users would share a
            development target; BUNDLE_GIT_BRANCH if a production target names another branch.
    """
    _check_paths(tree, target=target, user=user)
    for path in _UNSUPPORTED:
        node = tree.get(*path)
        if node is not None and node.value is not False and node.value != {}:
            raise UserError("BUNDLE_SETTING_UNSUPPORTED", location=node.location, field=".".join(path))
    mode, wanted = tree.get("mode"), tree.get("bundle", "git", "wanted_branch")
    actual = tree.get("bundle", "git", "branch")
    if mode is None or mode.value != "production" or wanted is None or actual is None or not actual.value:
        return
    if wanted.value != actual.value:
        raise UserError(
            "BUNDLE_GIT_BRANCH", location=wanted.location, target=target, wanted=wanted.value, actual=actual.value
        )


def _check_paths(tree: Node, *, target: str, user: str | None) -> None:
    """Check that paths are not in a volume, and in development contain the name of the user."""
    mode = tree.get("mode")
    for key, _ in _PATHS:
        node = tree.get("workspace", key)
        if node is None:
            continue
        path, field = node.text(f"workspace.{key}"), f"workspace.{key}"
        if path.startswith("/Volumes/") and key != "artifact_path":
            raise UserError("BUNDLE_VOLUME_PATH", location=node.location, field=field, path=path)
        is_development = mode is not None and mode.value == "development"
        if is_development and user is not None and user not in path and short_name(user) not in path:
            raise UserError("BUNDLE_PATH_SHARED", location=node.location, field=field, path=path, target=target)


def _with_git(bundle: Node, git: GitState) -> Node:
    """Add the repository's state; a branch in the settings becomes `wanted_branch`, the one production requires."""
    written = bundle.get("git")
    own = {} if written is None else dict(written.entries("bundle.git"))
    known = {"branch": git.branch, "commit": git.commit, "origin_url": git.origin_url}
    found = {key: as_node(value, bundle.location) for key, value in known.items() if value or key not in own}
    if "branch" in own:
        found["wanted_branch"] = own["branch"]
    return bundle.with_entry("git", own | found)


def _in_workspace(path: Node) -> Node:
    """Return a workspace path in full: `~/` is the current user's home, and `/Shared` is `/Workspace/Shared`."""
    text = path.value
    if not isinstance(text, str):
        return path
    if text.startswith("~/"):
        return path.with_value("/Workspace/Users/${workspace.current_user.userName}" + text[1:])
    if text.startswith("/") and not text.startswith(("/Workspace/", "/Volumes/")):
        return path.with_value(f"/Workspace{text}")
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """Checked-out state; a field is empty if unknown, such as the branch of a detached head."""

    branch: str = ""
    commit: str = ""
    origin_url: str = ""


def read_git_state(root: Path) -> GitState:
    """Read the state of the repository that contains a folder; an empty state without a repository."""
    own = _git_folder(root)
    if own is None:
        return GitState()
    common = own / _read(own / "commondir").strip()
    head = _read(own / "HEAD").strip()
    reference = head.removeprefix("ref: ")
    if reference == head:
        return GitState(commit=head, origin_url=_origin(common))
    commit = _read(own / reference).strip() or _read(common / reference).strip() or _packed(common, reference)
    return GitState(branch=reference.removeprefix("refs/heads/"), commit=commit, origin_url=_origin(common))


def _git_folder(root: Path) -> Path | None:
    """Return the folder of Git's files; in a worktree, `.git` is a file that names it."""
    for folder in (root.resolve(), *root.resolve().parents):
        found = folder / ".git"
        if found.is_dir():
            return found
        if found.is_file():
            return folder / _read(found).strip().removeprefix("gitdir: ")
    return None


def _origin(common: Path) -> str:
    """Return the URL of `origin` without credentials."""
    inside = False
    for line in _read(common / "config").splitlines():
        if line.strip().startswith("["):
            inside = line.strip() == '[remote "origin"]'
        elif inside and (match := _URL.match(line)):
            return _CREDENTIALS.sub(r"\1", match[1])
    return ""


def _packed(common: Path, reference: str) -> str:
    return next((commit for commit, name in _pairs(common / "packed-refs") if name == reference), "")


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    for line in _read(path).splitlines():
        commit, _, name = line.partition(" ")
        yield commit, name.strip()


def _read(path: Path) -> str:
    """Return the text of a file; empty if it is missing, unreadable or too large."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
