"""The kept analyses of a pipeline are a file that is replaced when one of them changed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.graph.kept_analyses import KeptAnalysis
from framework.run.tables.analysis_store import AnalysisStore

NAME = QualifiedName(catalog="main", schema="s", table="orders")


def analysis(key: str, stored: str | None = None) -> dict[QualifiedName, KeptAnalysis]:
    """Return the analysis of one dataset."""
    return {NAME: KeptAnalysis(key=key, stored=stored, content={"table_schema": None})}


def test_the_file_is_written_when_an_analysis_changed(tmp_path: Path) -> None:
    """Equal keys write nothing, also without any; another key, another stored table, and a lost dataset do."""
    storage = LocalStorage(str(tmp_path))
    store = AnalysisStore(storage, "shop")
    store.write({})
    assert not (tmp_path / "analyses").exists()
    files = []
    for analyses in (analysis("1"), analysis("1"), analysis("2"), analysis("2", "schema"), {}):
        store.write(analyses)
        assert store.read() == analyses
        (file,) = (tmp_path / "analyses").iterdir()
        files.append(file.stat().st_ino)
    assert [before == after for before, after in pairwise(files)] == [True, False, False, False]


def test_pipelines_that_share_a_storage_have_files_of_their_own(tmp_path: Path) -> None:
    """Also with names that no file can have."""
    stores = [AnalysisStore(LocalStorage(str(tmp_path)), name) for name in ("a", "b/../../c", "ä" * 300)]
    for number, store in enumerate(stores):
        store.write(analysis(str(number)))
    assert [store.read() for store in stores] == [analysis(str(number)) for number in range(3)]
