"""Chromium, headless and offline. A page must not load anything, log anything or open a dialog."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="run scripts/setup --browser")

# Debian's name, Ubuntu's, Google's. Playwright's own download of Chromium is never used.
NAMES = ("chromium", "chromium-browser", "google-chrome")

# Runs in the page before its own scripts.
COLLECT_VIOLATIONS = """
window.plimsollViolations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.plimsollViolations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
});
"""


def chromium_path() -> str:
    wanted = os.environ.get("PLIMSOLL_CHROMIUM")
    found = wanted or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium: run scripts/setup --browser, or set PLIMSOLL_CHROMIUM")
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One process of Chromium for all tests."""
    root = ["--no-sandbox"] if os.geteuid() == 0 else []  # its sandbox does not start as root
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=chromium_path(),
            args=[*root, "--font-render-hinting=none", "--disable-dev-shm-usage"],
        )
        yield chromium
        chromium.close()


@dataclass
class OpenedPage:
    """A page, and its forbidden actions."""

    page: Any
    requests: list[str] = field(default_factory=list)  # except the file itself
    messages: list[str] = field(default_factory=list)  # of the console: errors and warnings
    dialogs: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        violations = self.page.evaluate("() => window.plimsollViolations || []")
        return [
            *(f"request: {each}" for each in self.requests),
            *(f"console: {each}" for each in self.messages),
            *(f"dialog: {each}" for each in self.dialogs),
            *(f"Content-Security-Policy: {each}" for each in violations),
        ]


def watch(opened: OpenedPage, address: str) -> None:
    page = opened.page

    def on_request(route: Any) -> None:
        if route.request.url.split("#")[0] == address:
            route.continue_()
            return
        opened.requests.append(route.request.url)
        route.abort()

    def on_dialog(dialog: Any) -> None:
        opened.dialogs.append(dialog.message)
        dialog.dismiss()

    page.route("**/*", on_request)
    page.on("dialog", on_dialog)
    page.on("pageerror", lambda error: opened.messages.append(str(error)))
    page.on(
        "console",
        lambda message: (
            opened.messages.append(message.text) if message.type in ("error", "warning") else None
        ),
    )


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., OpenedPage]]:
    """Opens a file; at the end of the test, fails if the page did something forbidden.

    `expect_problems=True` is for tests of this fixture: they examine `problems()` themselves.
    """
    contexts, pages = [], []

    def open_file(
        path: Path,
        width: int = 1280,
        theme: str = "light",
        *,
        scripts: bool = True,
        height: int = 900,
        expect_problems: bool = False,
        **options: Any,
    ) -> OpenedPage:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            java_script_enabled=scripts,
            reduced_motion="reduce",
            **options,
        )
        contexts.append(context)
        context.add_init_script(COLLECT_VIOLATIONS)
        opened = OpenedPage(context.new_page())
        if not expect_problems:
            pages.append(opened)
        address = path.resolve().as_uri()
        watch(opened, address)
        opened.page.goto(address, wait_until="load")
        return opened

    yield open_file
    problems = [problem for opened in pages for problem in opened.problems()]
    for context in contexts:
        context.close()
    assert problems == []


AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def axe() -> Callable[[OpenedPage], list[str]]:
    """The violations that axe-core finds in a page, one line each, with the elements."""

    def violations(opened: OpenedPage) -> list[str]:
        opened.page.evaluate(f"() => {{ {AXE} }}")
        found = opened.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']} ({each['impact']}): {each['help']}: "
            + json.dumps([node["html"][:200] for node in each["nodes"][:5]])
            for each in found["violations"]
        ]

    return violations
