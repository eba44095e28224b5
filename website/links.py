"""Hook of the site: pages from outside of `docs/`, and links that work in the repository and on the site.

A relative link of a page is relative to the page's place in the repository. Pages from elsewhere (`PAGES`) are added
to the site, and links between pages follow them. A link to any other file becomes its text: the site has no sources.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "tests/README.md": "tests/README.md",
    "bench/RESULTS.md": "bench/RESULTS.md",
}
"""Pages from outside of `docs/`: their paths in the repository and on the site."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside of `docs/`, and the style sheet."""
    for path, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / path).read_text("utf-8")))
    style = (ROOT / "website/sluice.css").read_text("utf-8")
    files.append(File.generated(config, "assets/sluice.css", content=style))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links that are relative to its place on the site."""
    del config
    uri = page.file.src_uri
    source = next((path for path, moved in PAGES.items() if moved == uri), f"docs/{uri}")

    def rewritten(link: re.Match[str]) -> str:
        mark, text, target, anchor = link.groups()
        found = site_uri(normpath(join(dirname(source), target)))
        if not (ROOT / dirname(source) / target).exists():
            return link[0]  # a generated page, or a broken link, which the build reports
        if found is None or files.get_file_from_path(found) is None:
            return str(text)
        return f"{mark}[{text}]({relpath(found, dirname(uri) or '.')}{anchor or ''})"

    return _LINK.sub(rewritten, markdown)


def site_uri(path: str) -> str | None:
    """Return the place on the site of a path of the repository; None for a file that the site does not have."""
    return PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
