"""What everything in a bundle may refer to: its target, its paths, who deploys it, the repository it lies in."""

from __future__ import annotations

import re

from framework.deploy.git_state import GitState
from framework.deploy.nodes import Node, as_node
from framework.foundation.errors import UserError

_HOME = "/Workspace/Users/${workspace.current_user.userName}/.bundle/${bundle.name}/${bundle.target}"
_PATHS = (
    ("root_path", _HOME),
    ("state_path", "${workspace.root_path}/state"),
    ("file_path", "${workspace.root_path}/files"),
    ("artifact_path", "${workspace.root_path}/artifacts"),
    ("resource_path", "${workspace.root_path}/resources"),
)
# What the format has and Sluice does not do: ignoring it would deploy something else than what is written.
_UNSUPPORTED = (
    ("python",),
    ("experimental", "python"),
    ("experimental", "scripts"),
    ("presets", "source_linked_deployment"),
    ("presets", "artifacts_dynamic_version"),
)


def short_name(user: str) -> str:
    """What of a user name goes into the names of resources.

    Examples:
        >>> short_name("ada.lovelace@example.com")
        'ada_lovelace'
    """
    return re.sub(r"\W", "_", user.partition("@")[0])


def with_context(tree: Node, *, target: str, user: str | None, git: GitState) -> Node:
    """The tree with `bundle.target`, `bundle.git`, the signed-in user, and the paths that are not written."""
    bundle = tree.get("bundle") or as_node({}, tree.place)
    workspace = tree.get("workspace") or as_node({}, tree.place)
    own = dict(workspace.entries("workspace"))
    if user is not None:
        own["current_user"] = as_node({"userName": user, "short_name": short_name(user)}, workspace.place)
    for key, default in _PATHS:
        if workspace.get(key) is None:
            own[key] = as_node(default, workspace.place)
    own["root_path"] = _below_home(own["root_path"])
    return tree.with_entry("bundle", _with_git(bundle, git).with_entry("target", target)).with_entry("workspace", own)


def check_settings(tree: Node, *, target: str) -> None:
    """Refuse what is written and could not be kept.

    Raises:
        UserError: BUNDLE_SETTING_UNSUPPORTED; BUNDLE_GIT_BRANCH when a production target names another branch.
    """
    for path in _UNSUPPORTED:
        node = tree.get(*path)
        if node is not None and node.value is not False and node.value != {}:
            raise UserError("BUNDLE_SETTING_UNSUPPORTED", location=node.place, field=".".join(path))
    mode, wanted = tree.get("mode"), tree.get("bundle", "git", "wanted_branch")
    actual = tree.get("bundle", "git", "branch")
    if mode is None or mode.value != "production" or wanted is None or actual is None or not actual.value:
        return
    if wanted.value != actual.value:
        raise UserError(
            "BUNDLE_GIT_BRANCH", location=wanted.place, target=target, wanted=wanted.value, actual=actual.value
        )


def _with_git(bundle: Node, git: GitState) -> Node:
    """The repository's state as it is; the branch that is written is the one that a production target demands."""
    written = bundle.get("git")
    own = {} if written is None else dict(written.entries("bundle.git"))
    known = {"branch": git.branch, "commit": git.commit, "origin_url": git.origin_url}
    found = {key: as_node(value, bundle.place) for key, value in known.items() if value or key not in own}
    if "branch" in own:
        found["wanted_branch"] = own["branch"]
    return bundle.with_entry("git", own | found)


def _below_home(root_path: Node) -> Node:
    """`~/` is the home of who deploys."""
    text = root_path.value
    if not isinstance(text, str) or not text.startswith("~/"):
        return root_path
    return Node(value="/Workspace/Users/${workspace.current_user.userName}" + text[1:], place=root_path.place)
