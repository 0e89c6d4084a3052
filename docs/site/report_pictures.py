"""The pictures of the demo's report in these pages, as it is now; look at each before you commit it:

    make demo && .venv/bin/python docs/site/report_pictures.py demo/clinic.ledger

Needs Chromium, as the tests of the report do.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from dpledger.ledger.ledger import Ledger
from dpledger.reports import report

IMAGES = Path(__file__).parent.parent / "images"
CHROMIUM = "/usr/bin/chromium"
A4, MARGINS = 794, "body { padding: 9mm 12mm }"  # in CSS pixels; as `@page` of the report has them


def picture(browser: Browser, file: Path, name: str, width: int, last: str, **screen: Any) -> None:
    """`file` as it is shown down to the element `last`; printed, where the screen is a sheet."""
    page = browser.new_page(viewport={"width": width, "height": 900}, **screen)
    page.goto(file.resolve().as_uri())
    if width == A4:
        page.emulate_media(media="print")
        page.add_style_tag(content=MARGINS)
    bottom = page.locator(last).evaluate("one => one.getBoundingClientRect().bottom")
    clip: Any = {"x": 0, "y": 0, "width": width, "height": round(bottom) + 20}
    page.screenshot(path=IMAGES / f"{name}.png", full_page=True, clip=clip)
    page.close()


def main(ledger: str) -> None:
    with tempfile.TemporaryDirectory() as folder, Ledger.look(ledger) as book, sync_playwright() as playwright:
        whole, page = Path(folder, "whole.html"), Path(folder, "page.html")
        report(book).save(whole)
        report(book).summary().save(page)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        picture(browser, whole, "report", 1340, "#first_page .answers")
        picture(browser, whole, "report_dark", 1280, "#first_page .answers", color_scheme="dark")
        picture(browser, whole, "report_phone", 390, "[id='first_page/used']")
        picture(browser, page, "report_first_page", A4, ".small", device_scale_factor=1.2)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
