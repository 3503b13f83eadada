"""What makes the site of pages that also read well on a git host. Hooks of mkdocs (mkdocs.yml names this file).

A link that leads out of docs/, to an experiment or to CONTRIBUTING.md, leads to a page that shows the file. A notebook
is a page, with the outputs that are stored in it. A link that says the name of a page, as in a listing of files, says
its title.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

import nbconvert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

TREE = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")
NAMED = re.compile(r"\[([\w/]+\.(?:md|ipynb))\]\((?!\w+:)([^)#\s]+)")
# Where the files of the tree stand on the site; those of docs/ stand at its top.
ROOM = PurePosixPath("tree")
NOTEBOOK = ".ipynb"
LANGUAGES = {".pyx": "cython", ".pxd": "cython", ".et": "text", ".txt": "text"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for file in [file for file in files if file.src_uri.endswith(NOTEBOOK)]:
        files.remove(file)
        for made in shown(file, config):
            files.append(made)
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

    def target(link: str) -> File | None:
        return files.get_file_from_path(site_uri(normal(folder / link)))

    def name(match: re.Match[str]) -> str:
        there = target(match[2])
        return f"[{title(there)}]({match[2]}" if there else match[0]

    def link(match: re.Match[str]) -> str:
        there = target(match[1])
        return os.path.relpath(there.src_uri, PurePosixPath(uri).parent) if there else match[1]

    return LINK.sub(link, NAMED.sub(name, markdown))


def title(page: File) -> str:
    """What the nav calls a page, or else the page itself."""
    told = page.page and page.page.title
    return str(told or page.content_string.partition("\n")[0].removeprefix("# "))


def shown(notebook: File, config: MkDocsConfig) -> list[File]:
    """The page of a notebook, and its pictures."""
    path = PurePosixPath(notebook.src_uri)
    names = {"unique_key": path.stem, "output_files_dir": path.stem}
    text, resources = nbconvert.MarkdownExporter().from_filename(str(notebook.abs_src_path), resources=names)
    pictures = {str(path.parent / name): data for name, data in resources["outputs"].items()}
    made = {site_uri(in_tree(str(path))): text, **pictures}
    return [File.generated(config, uri, content=content) for uri, content in made.items()]


def in_tree(uri: str) -> PurePosixPath:
    """The path in the tree of what has this place on the site."""
    path = PurePosixPath(uri)
    return path.relative_to(ROOM) if path.parts[0] == ROOM.name else PurePosixPath("docs") / path


def site_uri(path: PurePosixPath) -> str:
    """Where the site has a file of the tree."""
    if path.parts[0] == "docs":
        inside = path.relative_to("docs")
        return str(inside.with_suffix(".md") if path.suffix == NOTEBOOK else inside)
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
