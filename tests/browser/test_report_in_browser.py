"""The report in a real browser: it opens from disk, asks for nothing, runs nothing, and passes axe-core.

`DPLEDGER_SCREENSHOTS=DIR` keeps pictures of the page, for whoever wants to look.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from report_records import report_on_hostile, report_on_sample

CHROMIUM = Path("/usr/bin/chromium")
QUIET = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
    "--disable-gpu",
]
DESKTOP, PHONE = (1280, 900), (390, 844)


class Visit:
    """A page that was opened from disk, and everything that it asked for or complained about."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.url = path.as_uri()
        page.goto(self.url, wait_until="load")

    def measure(self, script: str) -> Any:
        return self.page.evaluate(script)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.fail("no chromium at /usr/bin/chromium: install Debian's with `apt-get install chromium`")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=QUIET)
        yield started
        started.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {
        "sample": report_on_sample().save(folder / "sample.html"),
        "hostile": report_on_hostile().save(folder / "hostile.html"),
    }


def opened(browser: Browser, path: Path, size: tuple[int, int], scheme: Any = "light") -> Visit:
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    return Visit(context.new_page(), path)


def keep_picture(visit: Visit, name: str) -> None:
    folder = os.environ.get("DPLEDGER_SCREENSHOTS")
    if folder:
        visit.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.mark.parametrize(
    ("name", "size", "scheme"),
    [
        ("sample", DESKTOP, "light"),
        ("sample", DESKTOP, "dark"),
        ("sample", PHONE, "light"),
        ("hostile", PHONE, "light"),
    ],
)
def test_it_opens_quietly_fits_and_is_accessible(
    browser: Browser, reports: dict[str, Path], name: str, size: tuple[int, int], scheme: str
) -> None:
    visit = opened(browser, reports[name], size, scheme)
    keep_picture(visit, f"{name}-{size[0]}-{scheme}")
    assert visit.requests == [visit.url]
    assert visit.complaints == []
    wide, shown = visit.measure("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= shown, "the page itself scrolls sideways"
    found = Axe().run(visit.page)
    assert found.violations_count == 0, found.generate_report()
    visit.page.context.close()


def test_no_table_needs_scrolling_sideways_on_a_desktop(browser: Browser, reports: dict[str, Path]) -> None:
    visit = opened(browser, reports["sample"], DESKTOP)
    script = "one => one.filter(({scrollWidth, clientWidth}) => scrollWidth > clientWidth).map(({id}) => id)"
    assert visit.page.eval_on_selector_all(".scroll", "found => found.length") > 5
    assert visit.page.eval_on_selector_all(".scroll", script) == []
    visit.page.context.close()


def test_the_check_for_accessibility_sees_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.html"
    faulty.write_text("<!doctype html><title>x</title><p style='color:#aaa'>grey</p><a href='#'></a><img src='data:,'>")
    visit = opened(browser, faulty, PHONE)
    assert Axe().run(visit.page).violations_count >= 3
    visit.page.context.close()


def test_no_text_is_too_small_on_a_phone(browser: Browser, reports: dict[str, Path]) -> None:
    visit = opened(browser, reports["sample"], PHONE)
    smallest = visit.measure(
        "Math.min(...[...document.querySelectorAll('.chart text')]"
        ".map(one => one.getBoundingClientRect().height).filter(height => height > 0))"
    )
    assert smallest >= 10
    visit.page.context.close()


def test_the_policy_stops_a_script_that_would_get_in(browser: Browser, reports: dict[str, Path]) -> None:
    """The page's policy forbids everything but style: what the escaping should miss, the browser refuses."""
    source = reports["sample"].read_text("utf-8")
    planted = reports["sample"].with_name("planted.html")
    planted.write_text(source.replace("</main>", "<script>document.title = 'ran'</script><img src='x.png'></main>"))
    visit = opened(browser, planted, DESKTOP)
    assert visit.page.title() != "ran"
    assert len(visit.complaints) == 2
    assert all("Content Security Policy" in complaint for complaint in visit.complaints)
    visit.page.context.close()


def test_every_link_leads_to_something_on_the_page(browser: Browser, reports: dict[str, Path]) -> None:
    visit = opened(browser, reports["sample"], DESKTOP)
    missing = visit.measure(
        "[...document.querySelectorAll('a')].map(one => decodeURIComponent(one.hash.slice(1)))"
        ".filter(id => !document.getElementById(id))"
    )
    assert missing == []
    visit.page.context.close()


def test_it_prints_black_on_white_without_the_contents(browser: Browser, reports: dict[str, Path]) -> None:
    visit = opened(browser, reports["sample"], DESKTOP, "dark")
    visit.page.emulate_media(media="print")
    ink, paper, contents = visit.measure(
        "[getComputedStyle(document.body).color, getComputedStyle(document.documentElement).backgroundColor,"
        " getComputedStyle(document.querySelector('nav')).display]"
    )
    assert (ink, paper, contents) == ("rgb(0, 0, 0)", "rgb(255, 255, 255)", "none")
    pages = visit.page.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", pages)) > 3
    visit.page.context.close()
