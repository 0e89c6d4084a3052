"""The page that verifies a bundle, in a real browser: it is what its sources make, asks for nothing, says what was
verified and what is at fault, and passes axe-core. `DPLEDGER_SCREENSHOTS=DIR` keeps pictures."""

from __future__ import annotations

import io
import os
import runpy
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, FilePayload, Page

import c2sp_reader
import ledger_golden
from dpledger.accounting.guarantees import ApproxDP
from dpledger.ledger.entries.bodies import Heartbeat
from dpledger.ledger.entries.entry import entry_of
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.verifying import bundle, proof
from dpledger.mechanisms.numeric import ClippedMean, Count
from javascript_verifier import ROOT
from ledger_forger import forged, signed_head

pytestmark = pytest.mark.sliced

PAGE = ROOT / "docs" / "verify.html"
LEAVES = tuple(bundle.read(ledger_golden.DATA)[0])
HEAD = bundle.read(ledger_golden.DATA)[1]
KEY = ledger_golden.KEY.public.text


def payload(name: str, content: bytes) -> FilePayload:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def files(leaves: Sequence[bytes], head: bytes = HEAD) -> list[FilePayload]:
    content = b"".join(leaf + b"\n" for leaf in leaves)
    return [payload("entries.jsonl", content), payload("checkpoint", head)]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """The page, opened from disk; fails where it asked for anything, or complained."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    requests: list[str] = []
    complaints: list[str] = []
    opened.on("request", lambda request: requests.append(request.url))
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(PAGE.as_uri())
    yield opened
    opened.close()
    assert (set(requests), complaints) == ({PAGE.as_uri()}, [])


def answer(
    page: Page,
    given: Sequence[FilePayload],
    key: str = KEY,
    timeout: float = 60_000,
    *,
    kept: bytes | None = None,
    witnesses: str = "",
) -> str:
    page.set_input_files("#files", given)
    page.wait_for_function("document.getElementById('chosen').textContent.includes('.')")
    page.set_input_files("#kept", [] if kept is None else [payload("kept", kept)])
    page.fill("#key", key)
    page.fill("#witnesses", witnesses)
    page.click("#check")
    page.wait_for_selector("#answer:not([hidden])", timeout=timeout)
    return page.inner_text("#answer")


def picture(page: Page, name: str) -> None:
    folder = os.environ.get("DPLEDGER_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def test_the_page_is_what_its_sources_make() -> None:
    is_made = PAGE.read_text("utf-8") == runpy.run_path(str(ROOT / "verifier" / "make_page.py"))["page"]()
    assert is_made, "docs/verify.html is not what verifier/*.mjs make: `make verify-page` writes it"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_good_bundle_is_verified_and_what_is_left_and_not_recomputed_is_told(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    said = answer(page, files(LEAVES))
    assert said.startswith("Verified, and entries are missing")
    assert "entry 31 says, on the word of A. Lindqvist, that a copy with 40 entries had been seen" in said
    assert f"{len(LEAVES)} entries of {ledger_golden.LEDGER_ID}" in said
    assert "price not recomputed" in said
    assert page.locator("tr", has_text="clinic (ended by entry 31)").count() == 1
    row = page.locator("tr", has_text="ward-7 (closed)").first.inner_text()
    assert row.split("\t")[3:] == ["pure", "0.5", "1", "0.5"]
    picture(page, f"verify_{scheme}")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_archives_are_read_as_their_folder(page: Page) -> None:
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files(LEAVES):
            archive.writestr(f"bundle/{file['name']}", file["buffer"])
    with tarfile.open(fileobj=tarred, mode="w:gz") as tar:
        for file in files(LEAVES):
            member = tarfile.TarInfo(f"bundle/{file['name']}")
            member.size = len(file["buffer"])
            tar.addfile(member, io.BytesIO(file["buffer"]))
    for name, content in (("b.zip", zipped.getvalue()), ("b.tar.gz", tarred.getvalue())):
        assert answer(page, [payload(name, content)]).startswith("Verified")
        page.reload()
    cut = answer(page, [payload("b.zip", zipped.getvalue()[:-40])])
    assert cut.startswith("Nothing was verified")


def test_what_was_changed_is_named(page: Page) -> None:
    flipped = bytearray(LEAVES[4])
    flipped[200] ^= 1
    bad = {
        4: [*LEAVES[:4], bytes(flipped), *LEAVES[5:]],
        6: [*LEAVES[:6], *LEAVES[7:]],
        len(LEAVES) - 1: LEAVES[:-1],
    }
    for index, leaves in bad.items():
        said = answer(page, files(leaves))
        assert said.startswith("Does not verify")
        assert f"Entry {index} is the first at fault." in said
    picture(page, "verify_bad")
    assert answer(page, files(LEAVES), key="no key").startswith("Nothing was verified")
    assert answer(page, files(LEAVES)[:1]).startswith("Nothing was verified")


def test_a_count_in_a_budget_of_two_currencies_is_priced_here(page: Page) -> None:
    """The first budget of anybody, and what is asked of a table every day."""
    book = Ledger.in_memory()
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=ApproxDP(1, "1e-6"))
    for mechanism in (Count(epsilon="0.1", of="rows"), ClippedMean(epsilon="0.2", lower=0, upper=10)):
        scope.release(mechanism, [1] * 1200)
    said = answer(page, files(list(book.leaves()), book.head), book.public_key.text)
    assert said.startswith("Verified\n")
    assert "Every price in it was recomputed here." in said


def test_a_proof_of_one_entry_is_shown_with_what_it_does_not_show(page: Page) -> None:
    made = proof.prove(LEAVES, HEAD, 25)
    said = answer(page, [payload("entry-25.tlog-proof", made)])
    assert said.startswith("Verified: one entry")
    assert "A patient is counted at most once." in said
    assert "neither that it followed the rules" in said
    picture(page, "verify_proof")
    assert answer(page, [payload("p.proof", made)], kept=HEAD).startswith("Nothing was verified")
    flipped = made.replace(b"index 25", b"index 24")
    assert answer(page, [payload("p.proof", flipped)]).startswith("Does not verify")


def test_a_head_from_before_and_witnesses_are_held_against_the_record(page: Page) -> None:
    older = signed_head(LEAVES[:20], ledger_golden.KEY)
    said = answer(page, files(LEAVES), kept=older)
    assert f"{len(LEAVES) - 20} entries follow the checkpoint that you gave" in said
    assert "this record's own" in answer(page, files(LEAVES), kept=HEAD)
    forked = signed_head([*LEAVES[:19], LEAVES[20]], ledger_golden.KEY)
    refused = answer(page, files(LEAVES), kept=forked)
    assert refused.startswith("Does not verify")
    assert "Entry 19 is the first at fault." in refused
    longer = answer(page, files(LEAVES[:20], older), kept=HEAD)
    assert f"a remembered checkpoint covers {len(LEAVES)} entries" in longer

    text = HEAD.partition(b"\n\n")[0] + b"\n"
    north = c2sp_reader.cosigner_key("north.example/w", bytes(32))
    cosigned = HEAD + c2sp_reader.cosigned(text, "north.example/w", bytes(32), 1_800_000_000)
    seen = answer(page, files(LEAVES), kept=cosigned, witnesses=north)
    assert "Witnesses cosigned the newest entry" in seen
    assert page.locator("tr", has_text="north.example/w").inner_text() == "north.example/w\t2027-01-15 08:00:00 UTC"
    picture(page, "verify_witnessed")
    assert "too few of those that you trust" in answer(page, files(LEAVES), kept=HEAD, witnesses=north)
    assert answer(page, files(LEAVES), witnesses="nobody").startswith("Nothing was verified")
    asked = answer(page, files(LEAVES), witnesses=north)
    assert asked.startswith("Nothing was verified")
    assert "give a cosigned one as well" in asked
    assert "Witnesses cosigned the newest entry" in answer(page, files(LEAVES, cosigned), witnesses=north)


def test_a_record_whose_keys_took_turns_names_the_key_in_force(page: Page) -> None:
    leaves, head = bundle.read(ledger_golden.KEYS_DATA)
    said = answer(page, files(list(leaves), head), ledger_golden.TURNS_KEY.public.text)
    assert said.startswith("Verified, and the key was revoked")
    assert f"the one to keep for the next time: {ledger_golden.TURNS_SECOND.public.text}" in said


def test_it_fits_on_a_telephone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    answer(page, files(LEAVES))
    picture(page, "verify_phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.slow
def test_a_hundred_thousand_entries_with_a_progress_bar(page: Page) -> None:
    opened = entry_of(LEAVES[0]).body
    leaves, head = forged([opened, *repeat(Heartbeat(), 99_999)], ledger_golden.KEY)
    page.evaluate(
        "window.seen = []; new MutationObserver(() => window.seen.push(document.getElementById('progress').value))"
        ".observe(document.getElementById('progress'), {attributes: true})"
    )
    said = answer(page, files(leaves, head), timeout=300_000)
    assert "100,000 entries" in said
    assert page.evaluate("window.seen.some(value => value > 1000 && value < 90000)")
