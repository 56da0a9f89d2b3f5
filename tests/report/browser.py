"""What a page logs, asks for and shows when the system's Chromium opens it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@dataclass
class Visit:
    """What happened while a page was open."""

    problems: list[str] = field(default_factory=list)  # console messages (the browser's own too) and exceptions
    requests: list[str] = field(default_factory=list)  # every address asked for
    result: object = None  # of the expression


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless browser, and end it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def visit(browser: Browser, page: Path, expression: str) -> Visit:
    """Open a file, wait until it has loaded, and evaluate an expression there."""
    seen = Visit()
    with browser.new_context() as context:
        context.on("console", lambda message: seen.problems.append(message.text))
        context.on("weberror", lambda failure: seen.problems.append(str(failure.error)))
        context.on("request", lambda request: seen.requests.append(request.url))
        tab = context.new_page()
        tab.goto(page.resolve().as_uri(), wait_until="load")
        seen.result = tab.evaluate(expression)
    return seen
