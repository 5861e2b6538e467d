"""Pages of the site, their tables of contents, and their links. Needs no Sphinx, so that a cheap test can check
them."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from pathlib import Path

from tracecols.docs.site.declared import LISTS, property_pages

START = "index"
GENERATED = {"properties": ["properties/*"]}
"""Entries of the tables of contents that are added to pages when the site is built (`complete`), by page."""


def complete(name: str, text: str) -> str:
    """Return a page with the content that the site adds: lists made from declarations, and a table of contents."""
    if name in LISTS:
        text += f"\n{LISTS[name]()}"
    if name in GENERATED:
        text += "\n```{{toctree}}\n:hidden:\n:glob:\n{}\n```\n".format("\n".join(GENERATED[name]))
    return text


def write_property_pages(folder: Path) -> None:
    """Write the pages of all properties to tracecols/docs, and remove those of properties that no longer exist."""
    place = folder / "properties"
    place.mkdir(exist_ok=True)
    made = property_pages()
    for path in place.glob("*.md"):
        if path.stem not in made:
            path.unlink()
    for name, text in made.items():
        path = place / f"{name}.md"
        # Sphinx does not read pages again that are not written
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def pages(folder: Path) -> dict[str, str]:
    """Return the text of every page of a folder by name; for notebooks, the text of their Markdown cells."""
    found = {}
    for path in sorted([*folder.rglob("*.md"), *folder.rglob("*.ipynb")]):
        name = path.relative_to(folder)
        if name.parts[0] == "site" or path.stem.startswith("."):
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        found[name.with_suffix("").as_posix()] = text
    return found


def listed(name: str, text: str, every: list[str]) -> list[str]:
    """Return the entries of the tables of contents of a page; `every` lists all pages, to expand patterns."""
    entries = list(GENERATED.get(name, []))
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        entries += [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
    folder = name.rpartition("/")[0]
    found = []
    for entry in entries:
        wanted = re.sub(r".*<(.*)>", r"\1", entry).removesuffix(".md").removesuffix(".ipynb")
        wanted = wanted.removeprefix("/") if wanted.startswith("/") else "/".join(filter(None, (folder, wanted)))
        matching = [page for page in every if fnmatch(page, wanted)] if "*" in wanted else [wanted]
        found += matching
    return found


def without_section(folder: Path) -> list[str]:
    """Return the pages of a folder that no table of contents leads to from the start page."""
    every = pages(folder)
    reached, new = {START}, [START]
    while new:
        name = new.pop()
        for entry in listed(name, every.get(name, ""), list(every)):
            if entry not in reached:
                reached.add(entry)
                new.append(entry)
    return [name for name in every if name not in reached]


def broken_links(path: Path, text: str) -> list[str]:
    """Return the relative links of a page that lead to no file, or to no heading of one."""
    without_code = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)", without_code):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target) if target else path
        if not file.exists() or (
            anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8"))
        ):
            broken.append(link)
    return broken


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = re.findall(
        r"^#{1,4} (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
