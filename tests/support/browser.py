"""The viewer in a real browser: Chromium without a window, driven by playwright."""

import base64
import io
import json
import re
import shutil
import zlib
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from conftest import LONG

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@contextmanager
def chromium():
    """Start a browser; skip the test, with the reason, if there is none."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="the package playwright is not installed (extra 'test')"
    )
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no Chromium on this machine (looked for {', '.join(NAMES)}); on Debian: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"], timeout=1000 * LONG
        )
        try:
            # the context that pages share (`next_page`)
            browser.new_context()
            yield browser
        finally:
            browser.close()


def new_page(browser, **context):
    """Return a page in a new context, with the long timeout `LONG`."""
    made = browser.new_context(**context)
    made.set_default_timeout(1000 * LONG)
    return made.new_page()


FORGET = (
    "if (location.protocol === 'file:' && !sessionStorage.begun) { localStorage.clear(); sessionStorage.begun = 1; }"
)
"""Script that makes a page start without the settings stored by earlier pages."""


def next_page(browser, viewport):
    """Return a page as `new_page` does, but in the context shared by all pages of this function: a new context starts a
    new process, which takes a second longer."""
    page = browser.contexts[0].new_page()
    page.set_default_timeout(1000 * LONG)
    page.set_viewport_size(viewport)
    page.add_init_script(FORGET)
    return page


def copied(page, button):
    """Click on a button that copies something; return the content of the clipboard."""
    page.evaluate("() => navigator.clipboard.writeText('')")
    button.click()
    return page.wait_for_function("() => navigator.clipboard.readText()").json_value()


def small(png):
    """Return a screenshot reduced to 256 colours, which is a third of the size; colours of large areas stay."""
    from PIL import Image

    made = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(256)
    picture.save(made, "png", optimize=True)
    return made.getvalue()


class Report:
    """A report in a page; its errors and network requests are collected."""

    def __init__(self, browser, path, fragment="", width=1400, height=900, script="", **context):
        viewport = {"width": width, "height": height}
        self.page = new_page(browser, viewport=viewport, **context) if context else next_page(browser, viewport)
        self.page.add_init_script(script)
        self.path, self.trouble = path, []
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("console", lambda m: self.trouble.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("request", lambda r: self.trouble.append(r.url) if not r.url.startswith("file:") else None)
        self.open(fragment)

    def open(self, fragment=""):
        """Open the file again."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.path.as_uri()}{fragment}")
        self.page.wait_for_function("() => document.getElementById('tracecols')?.view")
        self.settle()

    def close(self):
        """Close the page."""
        self.page.close()

    def settle(self):
        """Wait until all values are loaded and drawn. A page in the background draws only once a second."""
        self.page.bring_to_front()
        self.page.evaluate(
            "async () => { await document.getElementById('tracecols').view.model.ready;"
            " await new Promise((go) => requestAnimationFrame(() => setTimeout(go))); }"
        )

    def view(self, expression):
        """Evaluate an expression of `view`: {cube, model, links}."""
        return self.page.evaluate(
            f"() => {{ const view = document.getElementById('tracecols').view; return {expression}; }}"
        )

    def pane(self, pane):
        """Return a locator of a pane: properties, calls or system."""
        return self.page.locator(f"[data-pane={pane}]")

    def rows(self, pane):
        """Return the rows on the screen, by node: (text of the number, value in full, name, is open, is selected)."""
        found = self.page.evaluate(
            """(pane) => [...document.querySelectorAll(`[data-pane=${pane}] .tc-row`)].map((row) => [
                Number(row.dataset.node), row.querySelector(".tc-number").textContent, row.title,
                row.querySelector(".tc-name").firstChild.textContent, row.getAttribute("aria-expanded"),
                row.getAttribute("aria-selected")])""",
            pane,
        )
        return {
            node: (number, float(title.split("\n")[1].split(" ")[0]), name, opened == "true", selected == "true")
            for node, number, title, name, opened, selected in found
        }

    def row(self, pane, node):
        """Return a locator of one row."""
        return self.page.locator(f'[data-pane={pane}] .tc-row[data-node="{node}"]')

    def click(self, locator, **how):
        """Click on something, and wait until all is drawn."""
        locator.click(**how)
        self.settle()

    def toggle(self, pane, node):
        """Click on the triangle of a row."""
        self.click(self.row(pane, node).locator(".tc-twisty"))

    def select(self, pane, node, **how):
        """Click on the name of a row."""
        self.click(self.row(pane, node).locator(".tc-name"), **how)

    def press(self, *keys):
        """Press keys one after the other."""
        for key in keys:
            self.page.keyboard.press(key)
            self.settle()
            self.page.wait_for_timeout(20)


def header_of(path):
    """Return the contents of a report except for its cells."""
    packed = re.search(r'id="tracecols-header">([^<]*)<', path.read_text(encoding="utf-8"))[1]
    return json.loads(zlib.decompress(base64.b64decode(packed), -15))


def encoded(name):
    """Return a name as the viewer writes it into links."""
    return quote(name, safe="!'()").replace("~", "%7e").replace("*", "%2a")


def link(cube, properties, call_paths=(), more=""):
    """Return the fragment that selects properties (id, open) and call paths (number, open)."""
    names, seen = [], {}
    for parent, name in zip(cube.call_paths.parent.tolist(), cube.call_paths.name, strict=True):
        path = ("" if parent < 0 else names[parent] + "/") + encoded(name)
        seen[path] = seen.get(path, 0) + 1
        names.append(path + (f"*{seen[path]}" if seen[path] > 1 else ""))
    parts = ["p=" + ",".join("~" * opened + encoded(name) for name, opened in properties)]
    if call_paths:
        parts.append("c=" + ",".join("~" * opened + names[number] for number, opened in call_paths))
    return "#" + "&".join(parts) + more
