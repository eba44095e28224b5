"""Where the checkpoints lie: `<storage>/checkpoints/<dataset>/<flow>/<generation>/`.

The manifest of a flow's generations lies beside them as `manifest.json`.
"""

from __future__ import annotations

import hashlib
import re

from framework.foundation.names import QualifiedName
from framework.foundation.storage_port import Storage

MANIFEST = "manifest.json"
_ROOT = "checkpoints"
_LONGEST = 200
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def folder_name(name: QualifiedName) -> str:
    """A folder name that is safe on every file system, and another one for every other name.

    Letters, digits, `_` and `-` stay; other characters become `~` and their bytes in hex, as `%`
    and `:` have meanings of their own in Hadoop's paths. Very long names end in a digest.

    Examples:
        >>> folder_name(QualifiedName(catalog="main", schema="sales", table="größe.2"))
        'main.sales.gr~c3b6~c39fe~2e2'
    """
    text = ".".join(_UNSAFE.sub(_escape, part) for part in (name.catalog, name.schema, name.table))
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}~~{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def datasets_folder(storage: Storage) -> str:
    """The folder with one folder per dataset that has a checkpoint."""
    return storage.path(_ROOT)


def dataset_folder(storage: Storage, dataset: QualifiedName) -> str:
    """The folder with the checkpoints of all flows into one dataset."""
    return storage.path(_ROOT, folder_name(dataset))


def flow_folder(storage: Storage, dataset: QualifiedName, flow: QualifiedName) -> str:
    """The folder with the manifest and all generations of one flow."""
    return storage.path(_ROOT, folder_name(dataset), folder_name(flow))


def manifest_path(storage: Storage, dataset: QualifiedName, flow: QualifiedName) -> str:
    """The file that says why each generation began and what state it is in."""
    return storage.path(_ROOT, folder_name(dataset), folder_name(flow), MANIFEST)


def checkpoint_path(storage: Storage, dataset: QualifiedName, flow: QualifiedName, number: int) -> str:
    """What `checkpointLocation` is for one generation of a flow."""
    return storage.path(_ROOT, folder_name(dataset), folder_name(flow), str(number))


def _escape(match: re.Match[str]) -> str:
    return f"~{match.group().encode('utf-8').hex()}"
