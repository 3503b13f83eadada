"""Links of the pages that lead out of docs/, to experiments or to CONTRIBUTING.md: on the site such a file is a page.

A hook of mkdocs (mkdocs.yml names it). On a git host, and in the tree, the same links lead to the files themselves.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

TREE = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")
# Where the files of the tree stand on the site; those of docs/ stand at its top.
ROOM = PurePosixPath("tree")
LANGUAGES = {".pyx": "cython", ".pxd": "cython", ".et": "text", ".txt": "text"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    waiting = [file for file in files if file.is_documentation_page()]
    while waiting:
        file = waiting.pop()
        folder = in_tree(file.src_uri).parent
        for link in LINK.findall(file.content_string):
            path = normal(folder / link)
            uri = site_uri(path)
            if path.parts[0] == "docs" or files.get_file_from_path(uri) or not (TREE / path).is_file():
                continue
            page = File.generated(config, uri, content=text_of(path), inclusion=InclusionLevel.NOT_IN_NAV)
            files.append(page)
            waiting.append(page)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri
    folder = in_tree(uri).parent

    def link(match: re.Match[str]) -> str:
        there = site_uri(normal(folder / match[1]))
        return os.path.relpath(there, PurePosixPath(uri).parent) if files.get_file_from_path(there) else match[1]

    return LINK.sub(link, markdown)


def in_tree(uri: str) -> PurePosixPath:
    """The path in the tree of what has this place on the site."""
    path = PurePosixPath(uri)
    return path.relative_to(ROOM) if path.parts[0] == ROOM.name else PurePosixPath("docs") / path


def site_uri(path: PurePosixPath) -> str:
    if path.parts[0] == "docs":
        return str(path.relative_to("docs"))
    return str(ROOM / path if path.suffix == ".md" else ROOM / f"{path}.md")


def normal(path: PurePosixPath) -> PurePosixPath:
    return PurePosixPath(os.path.normpath(path))


def text_of(path: PurePosixPath) -> str:
    """A page of the tree; of another file a page that shows it, which the search leaves out."""
    text = (TREE / path).read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    language = LANGUAGES.get(path.suffix, path.suffix.removeprefix("."))
    return f"---\nsearch: {{exclude: true}}\n---\n# {path}\n\n````{language}\n{text}\n````\n"
