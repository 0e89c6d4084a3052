"""The report in a real browser: it opens from disk, asks for nothing, runs nothing, and passes axe-core.

`DPLEDGER_SCREENSHOTS=DIR` keeps pictures of the page, for whoever wants to look.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from dpledger.reports import report
from report_records import crowded, long, report_on_hostile, report_on_sample

pytestmark = pytest.mark.sliced

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
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {
        "sample": report_on_sample().save(folder / "sample.html"),
        "hostile": report_on_hostile().save(folder / "hostile.html"),
        "first page": report_on_sample().summary().save(folder / "first_page.html"),
        "hostile first page": report_on_hostile().summary().save(folder / "hostile_first_page.html"),
        "small first page": report(long(20).verified()).summary().save(folder / "small.html"),
        "crowded first page": report(crowded().verified()).summary().save(folder / "crowded.html"),
    }


def opened(browser: Browser, path: Path, size: tuple[int, int], scheme: Any = "light") -> Visit:
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    return Visit(context.new_page(), path)


def unfold(visit: Visit) -> None:
    """Open every annex."""
    visit.measure("document.querySelectorAll('details').forEach(one => { one.open = true })")


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
        ("first page", PHONE, "dark"),
    ],
)
def test_it_opens_quietly_fits_and_is_accessible(
    browser: Browser, reports: dict[str, Path], name: str, size: tuple[int, int], scheme: str
) -> None:
    visit = opened(browser, reports[name], size, scheme)
    keep_picture(visit, f"{name}-{size[0]}-{scheme}")
    assert visit.requests == [visit.url]
    assert visit.complaints == []
    unfold(visit)
    wide, shown = visit.measure("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= shown, "the page itself scrolls sideways"
    found = Axe().run(visit.page)
    assert found.violations_count == 0, found.generate_report()
    visit.page.context.close()


def test_no_table_needs_scrolling_sideways_on_a_desktop(browser: Browser, reports: dict[str, Path]) -> None:
    visit = opened(browser, reports["sample"], DESKTOP)
    unfold(visit)
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
    unfold(visit)
    smallest = visit.measure(
        "Math.min(...[...document.querySelectorAll('.chart text')]"
        ".map(one => one.getBoundingClientRect().height).filter(height => height > 0))"
    )
    assert smallest >= 10
    visit.page.context.close()


def test_on_a_phone_all_is_in_the_frame_or_scrolls_with_a_mark(browser: Browser, reports: dict[str, Path]) -> None:
    visit = opened(browser, reports["sample"], PHONE)
    unfold(visit)
    beyond = """[...document.querySelectorAll('main *')].filter(one => !one.closest('.scroll, .canvas')
        && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(one => one.outerHTML)"""
    assert visit.measure(beyond) == []
    unmarked = """[...document.querySelectorAll('.scroll, .canvas')].filter(one => one.scrollWidth > one.clientWidth)
        .filter(one => !getComputedStyle(one).backgroundImage.includes('gradient')
          && getComputedStyle(one, '::before').content === 'none').map(one => one.id)"""
    assert visit.measure("document.querySelectorAll('.canvas').length") > 3
    assert visit.measure(unmarked) == []
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


def test_annexes_are_folded_on_a_screen_and_a_link_opens_its_annex(browser: Browser, reports: dict[str, Path]) -> None:
    visit = opened(browser, reports["sample"], DESKTOP)
    folded = visit.measure("[...document.querySelectorAll('details')].map(one => one.open)")
    assert len(folded) > 5
    assert not any(folded)
    visit.page.get_by_role("link", name="each audit").first.click()
    assert visit.measure("[...document.querySelectorAll('details')].filter(one => one.open).length") == 1
    assert visit.page.get_by_text("Claims of what ran here").first.is_visible()
    visit.page.context.close()


def test_it_prints_black_on_white_with_every_annex_open(browser: Browser, reports: dict[str, Path]) -> None:
    visit = opened(browser, reports["sample"], DESKTOP, "dark")
    hidden = "[...document.querySelectorAll('dd.text')].filter(one => !one.checkVisibility()).length"
    assert visit.measure(hidden) > 50
    visit.page.emulate_media(media="print")
    ink, paper = visit.measure(
        "[getComputedStyle(document.body).color, getComputedStyle(document.documentElement).backgroundColor]"
    )
    assert (ink, paper) == ("rgb(0, 0, 0)", "rgb(255, 255, 255)")
    assert visit.measure(hidden) == 0
    assert pages(visit) > 5
    visit.page.context.close()


def pages(visit: Visit) -> int:
    """How many sheets of A4 the page prints on."""
    return len(re.findall(rb"/Type\s*/Page\b", visit.page.pdf(prefer_css_page_size=True)))


@pytest.mark.parametrize(
    ("name", "promises"),
    [("first page", 2), ("hostile first page", 1), ("small first page", 1), ("crowded first page", 20)],
)
def test_each_first_page_prints_on_one_sheet(
    browser: Browser, reports: dict[str, Path], name: str, promises: int
) -> None:
    visit = opened(browser, reports[name], DESKTOP)
    assert visit.measure("document.querySelectorAll('.first').length") == promises
    assert pages(visit) == promises
    visit.page.context.close()


def test_a_whole_report_prints_on_few_sheets(browser: Browser, reports: dict[str, Path]) -> None:
    """Two first pages, and annexes on two scopes that tell together what both have."""
    visit = opened(browser, reports["sample"], DESKTOP)
    assert pages(visit) <= 12
    visit.page.context.close()


def test_a_first_page_that_says_little_is_set_larger(browser: Browser, reports: dict[str, Path]) -> None:
    sizes = {}
    for name in ("small first page", "crowded first page"):
        visit = opened(browser, reports[name], DESKTOP)
        visit.page.emulate_media(media="print")
        sizes[name] = visit.measure("parseFloat(getComputedStyle(document.querySelector('.answer ul')).fontSize)")
        visit.page.context.close()
    assert sizes["small first page"] > sizes["crowded first page"]


def test_a_legend_is_in_the_frame_on_a_phone(browser: Browser, reports: dict[str, Path]) -> None:
    visit = opened(browser, reports["sample"], PHONE)
    unfold(visit)
    beyond = """[...document.querySelectorAll('.chart.narrow text')].filter(one =>
        one.getBoundingClientRect().right > document.documentElement.clientWidth).map(one => one.textContent)"""
    assert visit.measure("document.querySelectorAll('.chart.narrow').length") > 2
    assert visit.measure(beyond) == []
    wide = """[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth
        && !getComputedStyle(one, '::before').content.includes('scrolls sideways')).map(one => one.id)"""
    assert visit.measure(wide) == []
    visit.page.context.close()


def test_a_print_breaks_no_word(browser: Browser, reports: dict[str, Path]) -> None:
    """Within tables each word of up to twenty letters stays on one line."""
    visit = opened(browser, reports["sample"], (703, 1000))  # the width of A4 within its margins, in CSS pixels
    visit.page.emulate_media(media="print")
    broken = visit.measure(
        """(() => {
          const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
          const broken = [];
          while (walker.nextNode()) {
            const node = walker.currentNode;
            for (const word of node.data.matchAll(/[A-Za-zä-ü]{2,20}/g)) {
              const range = document.createRange();
              range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
              if (new Set([...range.getClientRects()].map(one => Math.round(one.top))).size > 1
                  && node.parentElement.closest('table')) broken.push(word[0]);
            }
          }
          return broken;
        })()"""
    )
    assert broken == []
    wide, shown = visit.measure("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= shown
    visit.page.context.close()
