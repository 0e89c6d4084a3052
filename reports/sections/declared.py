"""What people declared, and what nobody has said: a fixed list of items, each printed whether or not it was declared.

The layers follow NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (2025). Of several
declarations of an item the last one counts; the words that it replaced stand in a table of their own. People's own
items (`own_...`) are printed too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpledger.ledger.entries.bodies import Declared
from dpledger.ledger.entries.declared_files import is_sample, is_sample_name
from dpledger.ledger.entries.entry import Entry
from dpledger.reports import readings, words
from dpledger.reports.grouping import MOST_ROWS, in_entries
from dpledger.reports.model import Block, Cell, Column, Item, Items, Origin, Prose, Section, Table, unknown, visible
from dpledger.reports.sections.several import named

__all__ = [
    "COPIED",
    "ITEMS",
    "REQUIRED",
    "Declaration",
    "Declarations",
    "declared_section",
    "label",
    "trust_models",
    "without_trust_model",
]

LAYERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "product": (
        "The product",
        {
            "product_name": "Name of the product",
            "product_description": "What it is, in a few sentences",
            "controller_and_contact": "Controller and contact",
            "intended_use": "Intended use",
            "not_intended_for": "Uses it is not for",
            "kind_of_product": "Kind of product",
            "region": "Region",
            "first_published": "First published",
            "dpia_reference": "Reference of the data protection impact assessment",
            "processing_record_reference": "Reference of the record of processing",
        },
    ),
    "protection": (
        "How one unit is protected",
        {
            "unit_justification": "Why this is the right unit of privacy",
            "contribution_bounding": "How contributions are bounded",
            "sensitivity": "Why the sensitivities hold",
            "population_size": "Number of units, if it is public",
            "epoch_policy": "When the budget is renewed, and who answers for the total",
            "parameters_chosen_without_data": "Clipping, bins, hyper-parameters: chosen without the data, or charged",
            "sampler": "The sampler that really ran",
            "accuracy": "Accuracy: intervals, bias from clipping, effect on small groups",
            "floating_point": "Floating-point side channels",
            "timing": "Timing side channels",
            "errors": "Error side channels",
        },
    ),
    "setting": (
        "Who asks, who receives, whom one trusts",
        {
            "query_model": "Query model",
            "who_may_query": "Who may query",
            "collusion": "Collusion of those who query",
            "trust_model": "Trust model and its actors",
            "output_recipients": "Who receives the output",
            "security_at_rest": "Security at rest",
            "security_in_use": "Security in use",
            "access_control": "Access control",
        },
    ),
    "data": (
        "The data",
        {
            "people": "Categories of people",
            "data_categories": "Categories of data",
            "data_growth": "Static or growing",
            "release_frequency": "One release or many",
            "collection_and_minimisation": "Collection and minimisation",
        },
    ),
    "around": (
        "Around the releases",
        {
            "limits": "What this record does not show",
            "non_dp_releases": "Releases from the same data without differential privacy",
            "invariants": "Invariants: published exactly",
            "post_processing": "Post-processing",
            "synthetic_data": "Synthetic data",
            "model_files": "Model files: digests, and the charges that produced each",
        },
    ),
    "responsibility": (
        "Who answers for it",
        {
            "justification": "Justification of the budget",
            "decision_owner": "Decision owner",
            "reviewer": "Reviewer",
            "next_review": "Date of the next review",
            "incident_contact": "Incident contact",
            "retention_ledger": "How long the ledger is kept",
            "retention_salts": "How long salts are kept",
            "retention_keys": "How long keys are kept",
            "registry_authors": "Who writes an entry for a public registry",
        },
    ),
}
ITEMS: tuple[str, ...] = tuple(item for _, items in LAYERS.values() for item in items)
"""The fixed list, in the order in which it is printed: the same items as `ledger.entries.declarations.ITEMS`."""

REQUIRED: tuple[str, ...] = (
    *("product_name", "product_description", "controller_and_contact", "intended_use", "kind_of_product", "region"),
    *("first_published", "justification", "decision_owner", "registry_authors"),
)
"""What an entry of a public registry must have, and why the budget is what it is and who decided it; without these a
promise is not explained. The other items are optional."""

LONGEST_BEFORE = 600  # characters of words that do not count any more
MOST_SCOPES = 20  # declarations of one item that are printed in full

COPIED = "the sample's words, not filled in"
IN_FULL = "… (in full in the annex)"
COPIED_NAME = "the sample's name"

WORD_OF_PEOPLE = (
    "A ledger cannot measure these. A declaration is the word of the person named; unless it carries that person's own "
    "signature, it is the operator's word about that person.",
)


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration at its place. `scope` is empty where it is about the whole ledger; `replaces`: the index of the one
    before."""

    index: int
    time: str
    scope: str
    body: Declared
    replaces: int | None

    @property
    def is_copied(self) -> bool:
        """Whether the words are those of the sample file: nobody has said them."""
        return is_sample(self.body.item, self.body.text)

    def words(self, limit: int) -> str:
        """What was declared, in one line of at most `limit` characters, cut between two words; with a mark where it was
        copied."""
        text = self.body.text.replace("\n", " ")
        if len(text) > limit:
            text = text[: limit - len(IN_FULL)].rsplit(" ", 1)[0] + IN_FULL
        text = visible(text)
        return f"{text} ({COPIED})" if self.is_copied else text

    def speaker(self, limit: int) -> str:
        """Whose word it is; with a mark where the name was copied."""
        name = visible(self.body.by, limit)
        return f"{name} ({COPIED_NAME})" if is_sample_name(self.body.by) else name

    def origin(self) -> Origin:
        """Whose word it is, when, and under whose signature. Those of the sample are nobody's, whoever copied them."""
        own = "their own envelope is inside the entry; its signature is not checked here"
        operator = "the ledger's own key: the operator's word about them"
        return Origin(
            status="unknown" if self.is_copied else "declared",
            by=self.speaker(200),
            when=self.time,
            signature=operator if self.body.envelope is None else own,
            entry=self.index,
        )

    def item(self, label: str) -> Item:
        """The declaration as an item of the report."""
        prefix = f"scope:{self.scope}/" if self.scope else ""
        where = f" (scope {self.scope})" if self.scope else ""
        replaced = "" if self.replaces is None else f" [replaces the words of entry {self.replaces}]"
        copied = f" [{COPIED}]" if self.is_copied else ""
        return Item(
            id=f"{prefix}declared/{self.body.item}",
            label=label + where,
            text=visible(self.body.text) + copied + replaced,
            origin=self.origin(),
        )


class Declarations:
    """The last declaration of each item, for the ledger and for each scope."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._asked: tuple[str, ...] = ()
        self._last: dict[tuple[str, str], Declaration] = {}
        self.replaced: list[tuple[Declaration, int]] = []
        """Each declaration that does not count any more, and the index of the one that replaced it, in order."""
        for entry in entries:
            if isinstance(entry.body, Declared):
                scope = entry.body.path[0].scope if entry.body.path else ""
                before = self._last.get((entry.body.item, scope))
                if before is not None:
                    self.replaced.append((before, entry.index))
                self._last[entry.body.item, scope] = Declaration(
                    entry.index, entry.time or "", scope, entry.body, None if before is None else before.index
                )

    def of(self, item: str) -> tuple[Declaration, ...]:
        """Those of `item`: the ledger's first, then the scopes' in id order."""
        return tuple(found for (name, _), found in sorted(self._last.items()) if name == item)

    def about(self, scopes: Iterable[str], asked: Iterable[str]) -> Declarations:
        """Those that count for `scopes`: of each scope its own words, else the ledger's. `asked`: the scopes of which
        something must be said; the others are charged to them."""
        found, scopes = Declarations(()), sorted(scopes)
        found._asked = tuple(sorted(asked))
        for item in {name for name, _ in self._last}:
            counted = [self.for_scope(item, scope) for scope in scopes] or [self._last.get((item, ""))]
            found._last.update({(item, one.scope): one for one in counted if one is not None})
        return found

    @property
    def asked(self) -> tuple[str, ...]:
        """The scopes of which something must be said."""
        return self._asked

    def unsaid(self, item: str) -> tuple[str, ...]:
        """The scopes that are asked about of which nobody has said it."""
        return tuple(scope for scope in self._asked if self.for_scope(item, scope) is None)

    def counts_for(self, one: Declaration) -> tuple[str, ...]:
        """The scopes for which it counts: its own, or all that are asked about and have no words of their own."""
        if one.scope:
            return (one.scope,)
        return tuple(scope for scope in self._asked if (one.body.item, scope) not in self._last)

    def of_all(self, item: str) -> Declaration | None:
        """The declaration that counts for all scopes that are asked about; None where there is none, or several."""
        found = self.of(item)
        return found[0] if len(found) == 1 and not self.unsaid(item) else None

    def for_scope(self, item: str, scope: str) -> Declaration | None:
        """The declaration of `item` that counts in `scope`: its own, else the ledger's."""
        return self._last.get((item, scope)) or self._last.get((item, ""))

    def last(self) -> tuple[Declaration, ...]:
        """The last one of each item and scope, in the order in which they were made."""
        return tuple(sorted(self._last.values(), key=lambda one: one.index))

    def at(self, one: Declaration) -> Declaration | None:
        """The last one of the same item in the same place."""
        return self._last.get((one.body.item, one.scope))

    def others(self) -> tuple[Declaration, ...]:
        """Those that are not on the list."""
        return tuple(found for (name, _), found in sorted(self._last.items()) if name not in ITEMS)

    @property
    def copied(self) -> tuple[str, ...]:
        """Items of the list that stand there in the sample's words, in some place."""
        found = {name for (name, _), one in self._last.items() if one.is_copied}
        return tuple(item for item in ITEMS if item in found)

    @property
    def missing(self) -> tuple[str, ...]:
        """Items of the list that nobody has declared, or not for all scopes that are asked about."""
        return tuple(item for item in ITEMS if not self.of(item) or self.unsaid(item))


def label(item: str) -> str:
    """What an item is called."""
    return next((labels[item] for _, labels in LAYERS.values() if item in labels), words.name(item))


def trust_models(declarations: Declarations) -> tuple[tuple[str, Declaration], ...]:
    """The trust models that were declared, each in a word; a declaration that names none, or several, or is the
    sample's, has none."""
    found = ((readings.trust(one.body.text), one) for one in declarations.of("trust_model") if not one.is_copied)
    return tuple((word, one) for word, one in found if word)


def without_trust_model(declarations: Declarations) -> tuple[str, ...]:
    """The scopes that are asked about of which no trust model is known."""
    told = {scope for _, one in trust_models(declarations) for scope in declarations.counts_for(one)}
    return tuple(scope for scope in declarations.asked if scope not in told)


def declared_section(declarations: Declarations, scopes: Sequence[str]) -> Section:
    """The section of declarations, layer by layer; of each item also for which of `scopes` nobody has said it."""
    sections = [
        Section(
            id=f"declared/layer/{layer}",
            heading=heading,
            blocks=(Items(items=tuple(one for item in items for one in _items(item, declarations, scopes))),),
        )
        for layer, (heading, items) in LAYERS.items()
    ]
    others = declarations.others()
    if others:
        blocks: tuple[Block, ...] = (Items(items=tuple(one.item(label(one.body.item)) for one in others)),)
        if len(others) > MOST_ROWS:
            blocks = (_other_table(others),)
        sections.append(Section(id="declared/layer/others", heading="Further declarations", blocks=blocks))
    if declarations.replaced:
        shown = _replaced(declarations.replaced)
        sections.append(Section(id="declared/layer/replaced", heading="Words that were replaced", blocks=shown))
    return Section(
        id="declared",
        heading="What people declared, and what nobody has said",
        about="Items that no ledger can measure: whose word each one is, or that it is missing.",
        blocks=(Prose(id="declared/word_of_people", lines=WORD_OF_PEOPLE, tone="note"),),
        sections=tuple(sections),
    )


def _replaced(found: Sequence[tuple[Declaration, int]]) -> tuple[Block, ...]:
    """What people said before; the words of the sample, which nobody had said, are counted in a line."""
    said = [(one, by) for one, by in found if not one.is_copied]
    table = (_table_of_replaced(said),) if said else ()
    filled = {(one.body.item, one.scope) for one, _ in found if one.is_copied}
    if not filled:
        return table
    line = f"{words.count(len(filled), 'item')} had the sample's words before; the entries have them."
    return (*table, Prose(id="declared/sample_replaced", lines=(line,), tone="note"))


def _table_of_replaced(found: Sequence[tuple[Declaration, int]]) -> Table:
    """The latest MOST_ROWS of it."""
    shown = found[-MOST_ROWS:]
    more = len(found) - len(shown)
    return Table(
        id="declared/replaced",
        caption="Words that were replaced, and by which entry"
        + (f"; {more:,} earlier ones stand there" if more else ""),
        columns=(Column("Item"), Column("Words then"), Column("By"), Column("Entry"), Column("Replaced in entry")),
        rows=tuple(
            (
                Cell(label(one.body.item), note=f"scope {one.scope}" if one.scope else ""),
                Cell(visible(one.body.text, LONGEST_BEFORE)),
                Cell(visible(one.body.by, 80), note=one.time),
                Cell(str(one.index), one.index),
                Cell(str(by), by),
            )
            for one, by in shown
        ),
        empty="",
        origin=Origin(status="declared"),
    )


def _items(item: str, declarations: Declarations, scopes: Sequence[str]) -> tuple[Item, ...]:
    found = declarations.of(item)
    if not found:
        return (unknown(f"declared/{item}", label(item), f"not declared (item {item})"),)
    shown = tuple(declaration.item(label(item)) for declaration in found[:MOST_SCOPES])
    without = [scope for scope in scopes if declarations.for_scope(item, scope) is None]
    if without:
        shown += (unknown(f"declared/{item}", label(item), f"not declared for {named(without)} (item {item})"),)
    rest = found[MOST_SCOPES:]
    if not rest:
        return shown
    line = f"declared for {words.count(len(rest), 'further scope')}, in {in_entries([one.index for one in rest])}"
    return (*shown, Item(id=f"declared/{item}/more", label=label(item), text=line, origin=Origin(status="declared")))


def _other_table(others: tuple[Declaration, ...]) -> Table:
    """Very many further items, by name alone: the text of each stands in its entry."""
    kinds: dict[str, list[int]] = {}
    for one in others:
        kinds.setdefault(one.body.item.split("_")[0], []).append(one.index)
    rows = tuple(
        (Cell(words.name(kind)), Cell(f"{len(found):,}", len(found)), Cell(f"{min(found)} to {max(found)}"))
        for kind, found in sorted(kinds.items())[:MOST_ROWS]
    )
    return Table(
        id="declared/others",
        caption="Further declarations, too many to print: the text of each stands in its entry",
        columns=(Column("Items whose names begin with"), Column("How many", numeric=True), Column("Entries")),
        rows=rows,
        empty="",
        origin=Origin(status="declared"),
    )
