"""Three renderings of one model: they say the same, and text from a ledger is inert in each."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from hypothesis import example, given, strategies as st
from markdown_it import MarkdownIt

from dpledger.ledger.signed import wire
from dpledger.reports import Report
from dpledger.reports.markdown import escaped
from dpledger.reports.model import Items, Picture, Prose, Section, Table, blocks, pictures, visible
from report_records import HOSTILE, report_on_hostile, report_on_sample

INERT_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "a", "div", "header", "p", "h1", "h2", "h3", "bdi", "span"),
    *("ul", "li", "ol", "nav", "main", "section", "dl", "dt", "dd", "small", "strong", "table", "caption", "thead"),
    *("tbody", "tr", "th", "td", "figure", "figcaption", "footer", "svg", "rect", "path", "line", "text", "tspan"),
    *("desc", "defs", "pattern", "polygon", "circle", "details", "summary", "wbr"),
}
ACTIVE_TOKENS = {"link_open", "image", "html_inline", "html_block", "s_open", "em_open", "fence", "code_block"}


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, and text outside the style sheet."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.pieces: list[str] = []
        self.open: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in {"meta", "rect", "path", "line", "circle", "polygon", "wbr"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.pieces.append(data)

    @property
    def text(self) -> str:
        return squeezed("".join(self.pieces))


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def texts(made: Report) -> Iterator[str]:
    """Every text that the model says, in reading order."""
    model = made.model
    yield model.subtitle
    yield from (page.about for page in model.pages)
    for answer in (answer for page in model.pages for answer in page.answers):
        yield from (answer.question, answer.text, *answer.lines, *(link.label for link in answer.links))
        if answer.picture is not None:
            yield from (answer.picture.title, answer.picture.description)

    def headings(sections: tuple[Section, ...]) -> Iterator[str]:
        for section in sections:
            yield from (section.heading, section.about)
            yield from headings(section.sections)

    yield from headings(model.sections)
    for block in blocks(model.sections):
        match block:
            case Items(items=items):
                for item in items:
                    yield from (item.label, item.text, item.origin.status, item.origin.by, item.origin.signature)
            case Table(rows=rows):
                yield from (block.caption, block.empty if not rows else "")
                yield from (text for row in rows for cell in row for text in (cell.text, cell.note))
                yield from (column.heading for column in block.columns if rows)
            case Prose(lines=lines):
                yield from lines
            case Picture():
                yield from (block.title, block.description)


@pytest.fixture(scope="module", params=[report_on_sample, report_on_hostile], ids=["sample", "hostile"])
def made(request: pytest.FixtureRequest) -> Report:
    made: Report = request.param()
    return made


# ---- the same in all three ------------------------------------------------------------------------------------------


def test_html_says_everything(made: Report) -> None:
    page = Page(made.html()).text
    assert [text for text in texts(made) if squeezed(text) not in page] == []


def test_markdown_says_everything(made: Report) -> None:
    source = squeezed(made.markdown())
    assert [text for text in texts(made) if escaped(text) not in source] == []


def test_json_says_everything_in_the_byte_profile(made: Report) -> None:
    parsed = wire.parse(made.json().encode())
    assert parsed["schema"] == "dpledger.report.v3"
    found = _strings(parsed)
    assert [text for text in texts(made) if text and text not in found] == []


def test_every_item_has_its_id_in_each_form(made: Report) -> None:
    ids = [item.id for block in blocks(made.model.sections) if isinstance(block, Items) for item in block.items]
    anchors = {attributes.get("id") for _, attributes in Page(made.html()).elements}
    assert set(ids) <= anchors
    assert all(f"`{id_}`" in made.markdown() and f'"{id_}"' in made.json() for id_ in ids)


def test_every_form_carries_the_digest_and_the_root(made: Report) -> None:
    digest = hashlib.sha256(made.json().encode()).hexdigest()
    assert made.body().digest == made.digest == digest
    for form in (made.html(), made.markdown()):
        assert digest in form
        assert made.model.root in form
    assert made.model.root in made.json()


# ---- HTML -----------------------------------------------------------------------------------------------------------


def test_the_page_is_well_formed_and_holds_nothing_active(made: Report) -> None:
    page = Page(made.html())
    assert page.open == []
    assert {tag for tag, _ in page.elements} <= INERT_TAGS
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert attributes.get("href", "#").startswith("#")
        assert not {"src", "action", "formaction", "srcdoc", "data", "background"} & set(attributes)


def test_the_policy_allows_inline_style_and_nothing_else(made: Report) -> None:
    (policy,) = (
        attributes["content"]
        for tag, attributes in Page(made.html()).elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_ids_are_unique_and_links_lead_somewhere(made: Report) -> None:
    elements = Page(made.html()).elements
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [unquote(attributes["href"][1:]) for tag, attributes in elements if tag == "a"]
    assert set(targets) <= set(ids)


def test_tables_are_named_and_their_headings_have_a_scope(made: Report) -> None:
    elements = Page(made.html()).elements
    assert sum(tag == "table" for tag, _ in elements) == sum(tag == "caption" for tag, _ in elements)
    assert all(attributes.get("scope") in {"row", "col"} for tag, attributes in elements if tag == "th")


def test_every_picture_has_a_title_and_a_description(made: Report) -> None:
    elements = Page(made.html()).elements
    ids = {attributes.get("id") for _, attributes in elements}
    drawings = [attributes for tag, attributes in elements if tag == "svg" and attributes.get("role") == "img"]
    assert len(drawings) == len(list(pictures(made.model))) > 1
    assert all({one["aria-labelledby"], one["aria-describedby"]} <= ids for one in drawings)


def test_a_notebook_gets_the_page_in_a_frame_that_can_do_nothing(made: Report) -> None:
    ((tag, attributes),) = Page(made._repr_html_().replace("</iframe>", "")).elements
    assert tag == "iframe"
    assert attributes["sandbox"] == ""
    assert attributes["srcdoc"] == made.html()


# ---- hostile text ---------------------------------------------------------------------------------------------------


def test_hostile_text_is_shown_as_it_is_written() -> None:
    """In HTML as text, in JSON as a string, in Markdown as the same characters once it is read."""
    made = report_on_hostile()
    shown = visible(HOSTILE)
    assert "[U+0600]" in shown
    assert "\u0600" not in shown
    assert squeezed(shown) in Page(made.html()).text
    assert shown in _strings(wire.parse(made.json().encode()))
    read = squeezed(" ".join(_inline_text(made.markdown())))
    assert squeezed(shown) in read


def _strings(value: object) -> set[str]:
    if isinstance(value, str):
        return {value}
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {text for one in below for text in _strings(one)}


def test_markdown_holds_no_link_no_image_no_html(made: Report) -> None:
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = list(reader.parse(made.markdown()))
    kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or ()}
    assert kinds & ACTIVE_TOKENS == set()
    assert "table_open" in kinds


@given(st.text("#-+=*~_>`|<1.)a \n\t", min_size=1), st.sampled_from(["", "- ", "> ", "> - "]))
@example("# Heading", "- ")
@example("---", "")
@example("1. one", "> ")
@example("===", "- ")
@example("-  + 12)", "")
def test_text_at_the_beginning_of_a_line_is_no_heading_list_or_rule(text: str, before: str) -> None:
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(f"Above\n\n{before}{escaped(text)}\n")
    began = MarkdownIt("commonmark").parse(f"Above\n\n{before}x\n")
    if not text.strip():
        return
    assert [token.type for token in tokens] == [token.type for token in began]
    read = ["".join(child.content for child in token.children or ()) for token in tokens if token.type == "inline"]
    assert read == ["Above", squeezed(text)]


def test_markdown_keeps_the_shape_of_its_tables(made: Report) -> None:
    tables = [block for block in blocks(made.model.sections) if isinstance(block, Table) and block.rows]
    tokens = MarkdownIt("commonmark").enable("table").parse(made.markdown())
    assert sum(token.type == "table_open" for token in tokens) == len(tables)
    cells = sum(token.type == "td_open" for token in tokens)
    assert cells == sum(len(table.rows) * len(table.columns) for table in tables)


def _inline_text(source: str) -> Iterator[str]:
    reader = MarkdownIt("commonmark").enable("table")
    for token in reader.parse(source):
        if token.type == "inline":
            yield "".join(child.content if child.type != "softbreak" else " " for child in token.children or ())


@pytest.mark.parametrize("form", ["html", "json", "markdown"])
def test_templates_in_text_are_not_run(form: str) -> None:
    assert "{{ 7*7 }}" in getattr(report_on_hostile(), form)().replace("\\", "")


def test_a_page_that_stands_alone_shows_no_phrase_that_leads_nowhere() -> None:
    """Where there is no annex to lead to, only the gaps are named: on a screen as in print."""
    page = report_on_sample().summary().html()
    hidden = "@media screen { .answer:not(.of-gaps) > .more:has(> span) { display: none; } }"
    assert hidden in page
    assert '<a href="#scope' not in page


def test_what_is_kept_beside_the_entries_is_not_said_to_be_absent() -> None:
    text = " ".join(report_on_sample().markdown().split())
    assert "no value and no data is in a signed entry, in a bundle or in this report" in text
    assert "The operator's file may keep released values beside the entries." in text
