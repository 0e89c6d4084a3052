"""What an entry in the public registry of deployments would say of each promise: its fields, each from the record, from
a declaration, or missing. Nothing is invented: what is missing is listed with the item that would supply it.

The names of fields and the words that a field takes are those of the registry's schema of July 2026
(github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from dpledger.accounting.guarantees import ZCDP, PureDP
from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.reports import readings, words
from dpledger.reports.model import Cell, Column, Prose, Section, Table, visible
from dpledger.reports.promises import Promise
from dpledger.reports.sections.declared import COPIED, Declarations, trust_models, without_trust_model
from dpledger.reports.sections.several import named

__all__ = ["LISTS", "entry_fields", "registry_section"]

LISTS = ("deployment.basic.data_curators", "deployment.administrative.registry_authors")
"""Fields that hold a list of texts; an entry of ours holds one."""
MODELS = {"central": "Central", "local": "Local", "shuffled": "Shuffle"}
REQUIRED = "required; "
SECOND_TIER = frozenset(
    {
        *("basic.name", "basic.data_curators", "basic.description", "basic.intended_use", "basic.data_product_type"),
        *("basic.data_product_region", "basic.publication_date", "administrative.registry_authors"),
        *("dp_variant.variant_name", "deployment_model.model_name", "deployment_model.release_type"),
        *("deployment_model.data_source_type", "deployment_model.access_type"),
    }
)
"""What an entry of the second tier has, beside what the record always shows of a promise."""

ABOUT = (
    "`dpledger report LEDGER -o entry.yaml` writes an entry with the status Draft for each promise, from this report "
    "and nothing else. What is missing there is left out and listed; an entry without its required fields is not valid "
    "yet."
)


def entry_fields(
    number: int,
    head: Checkpoint,
    promise: Promise | None,
    promises: int,
    accounts: Sequence[ScopeAccount],
    declarations: Declarations,
) -> Table:
    """The fields of the entry of one promise of so many: `accounts`, `declarations` are those that it is about."""
    fields = (*_basic(declarations), *_privacy(promise), *_setting(accounts, declarations))
    of = promise.scopes if promise is not None and promises > 1 else ()
    return Table(
        id=f"registry/{number}",
        caption="Fields of an entry" + (f": {named(of)}" if of else ""),
        columns=(Column("Field"), Column("Says")),
        rows=(*_head(head, of, _tier(fields)), *fields),
        empty="",
    )


def registry_section(entries: Sequence[Table], left_out: int) -> Section:
    """The annex on the registry: what is missing for an entry of each promise. `left_out`: promises without one."""
    lines = [ABOUT, *(_summary(entry) for entry in entries)]
    if left_out:
        lines.append(f"{words.count(left_out, 'further promise')}: give --scope for an entry of one.")
    found: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        for field, said in entry.rows:
            if said.status == "unknown":
                found.setdefault((field.text, said.note), []).append(entry.caption.partition(": ")[2])
    rows = tuple(
        (
            Cell(field.removeprefix("deployment."), field),
            Cell(why, status="unknown", note="" if len(which) == len(entries) else f"of {'; '.join(which)}"),
        )
        for (field, why), which in found.items()
    )
    columns = (Column("Field"), Column("What is missing"))
    caption = "Fields that are missing, and what supplies them"
    return Section(
        id="registry",
        heading="For a public registry of deployments",
        about="An entry for each promise, and what is missing for it.",
        blocks=(
            Prose(id="registry/about", lines=tuple(lines), tone="note"),
            Table(id="registry/missing", caption=caption, columns=columns, rows=rows, empty="No field is missing."),
        ),
    )


def _summary(entry: Table) -> str:
    """What one entry says, in a line."""
    said = {field.text: cell.text for field, cell in entry.rows if cell.status != "unknown"}
    missing = words.count(sum(cell.status == "unknown" for _, cell in entry.rows), "field")
    loss = said.get("deployment.privacy_loss.privacy_parameters_details", "no promise holds")
    of = entry.caption.partition(": ")[2]
    return f"{of + ': ' if of else ''}tier {said['tier']} of 3; {loss}; {missing} missing."


Row = tuple[Cell, Cell]


def _row(field: str, text: str, value: Decimal | str | int | None = None) -> Row:
    return Cell(field), Cell(text, value, status="measured")


# ---- what people declare --------------------------------------------------------------------------------------------


def _declared(
    declarations: Declarations, field: str, item: str, *, required: str = "", taken: Callable[[str], str] = str
) -> Row:
    """A field from a declared item. `taken`: the text as the field takes it, empty where it does not."""
    text, by, why = _of_each(declarations, item, taken)
    if why:
        return Cell(field), Cell("missing", status="unknown", note=required + why)
    return Cell(field), Cell(text, text, status="declared", note=f"declared by {by}")


def _of_each(declarations: Declarations, item: str, taken: Callable[[str], str] = str) -> tuple[str, str, str]:
    """What was declared of a promise, by whom, and why it does not fill a field; the text of each scope where they
    differ, which a field of certain words does not take."""
    found, unsaid = declarations.of(item), declarations.unsaid(item)
    if not found:
        return "", "", f"declare {item}"
    if any(one.is_copied for one in found):
        return "", "", f"item {item} has {COPIED}"
    if unsaid:
        return "", "", f"declare {item} for {named(unsaid)}"
    texts = {one: visible(one.body.text) for one in found}
    for text in texts.values():
        if not taken(text):
            return "", "", f"item {item} says “{visible(text, 60)}”, which the field does not accept"
    by = "; ".join(dict.fromkeys(one.speaker(200) for one in found))
    said = dict.fromkeys(taken(text) for text in texts.values())
    if len(said) == 1:
        return next(iter(said)), by, ""
    if taken is not str:
        return "", "", f"item {item} is not the same for all scopes: {', '.join(said)}"
    text = "; ".join(f"{named(declarations.counts_for(one))}: {text}" for one, text in texts.items())
    return visible(text), by, ""


def _basic(declarations: Declarations) -> tuple[Row, ...]:
    def field(name: str, item: str, taken: Callable[[str], str] = str) -> Row:
        return _declared(declarations, f"deployment.basic.{name}", item, required=REQUIRED, taken=taken)

    return (
        field("name", "product_name"),
        field("data_curators", "controller_and_contact"),
        field("description", "product_description"),
        field("intended_use", "intended_use"),
        field("data_product_type", "kind_of_product", readings.kind_of_product),
        field("data_product_region", "region"),
        field("publication_date", "first_published", readings.day),
    )


def _setting(accounts: Sequence[ScopeAccount], declarations: Declarations) -> tuple[Row, ...]:
    def field(name: str, item: str, taken: Callable[[str], str] = str) -> Row:
        return _declared(declarations, f"deployment.{name}", item, taken=taken)

    return (
        field("dp_variant.data_domain", "data_categories"),
        _unprotected(declarations),
        _model(declarations),
        field("deployment_model.model_name_details", "trust_model"),
        field("deployment_model.actors", "output_recipients"),
        field("deployment_model.release_type", "release_frequency", readings.releases),
        field("deployment_model.release_type_details", "epoch_policy"),
        field("deployment_model.data_source_type", "data_growth", readings.sources),
        field("deployment_model.access_type", "query_model", readings.access),
        field("deployment_model.access_type_details", "query_model"),
        field("accounting.post_processing", "post_processing"),
        *_rule(accounts),
        field("implementation.preprocessing_and_hyperparameter_tuning", "parameters_chosen_without_data"),
        *_mechanisms(accounts),
        field("implementation.justification", "justification"),
        _declared(declarations, "deployment.administrative.registry_authors", "registry_authors", required=REQUIRED),
    )


UNPROTECTED = {"Exactly": "invariants", "without noise": "non_dp_releases"}


def _unprotected(declarations: Declarations) -> Row:
    """What no promise covers: known only where both items are declared."""
    field = Cell("deployment.dp_variant.unprotected_quantities")
    said = {word: _of_each(declarations, item) for word, item in UNPROTECTED.items()}
    if why := [missing for _, _, missing in said.values() if missing]:
        return field, Cell("missing", status="unknown", note="; ".join(why))
    some = [f"{word}: {text}" for word, (text, _, _) in said.items() if text.strip(" .").lower() != "none"]
    text = "; ".join(some) or "None"
    text = visible(text[:1].upper() + text[1:])
    by = "; ".join(dict.fromkeys(by for _, by, _ in said.values()))
    return field, Cell(text, text, status="declared", note=f"declared by {by}")


def _model(declarations: Declarations) -> Row:
    field = Cell("deployment.deployment_model.model_name")
    found, rest = trust_models(declarations), without_trust_model(declarations)
    models = sorted({MODELS[word] for word, _ in found})
    if not models:
        why = "declare trust_model, and name one of central, local, shuffled"
        return field, Cell("missing", status="unknown", note=why)
    if len(models) > 1 or rest:
        told = [*models, *([f"unknown for {named(rest)}"] if rest else [])]
        why = f"item trust_model is not the same for all scopes: {', '.join(told)}"
        return field, Cell("missing", status="unknown", note=why)
    by = "; ".join(dict.fromkeys(one.speaker(200) for _, one in found))
    return field, Cell(models[0], models[0], status="declared", note=f"declared by {by}")


# ---- what the record shows ------------------------------------------------------------------------------------------


def _tier(fields: Sequence[Row]) -> int:
    """How complete the entry is, in the registry's three steps."""
    missing = {field.text.removeprefix("deployment.") for field, said in fields if said.status == "unknown"}
    if not missing:
        return 3
    return 1 if missing & SECOND_TIER else 2


def _head(head: Checkpoint, of: Sequence[str], tier: int) -> tuple[Row, ...]:
    """`of`: the scopes that tell the entry from others of the ledger."""
    slug = re.sub(r"[^a-z0-9]+", "_", "_".join((head.origin, *of)).lower())
    return (
        _row("url_slug", slug, slug),
        _row("status", "Draft", "Draft"),
        _row("tier", str(tier), tier),
        _row(
            "deployment.administrative.notes",
            f"From the signed ledger {head.origin}, {head.size:,} entries, root {head.root.hex()}",
        ),
    )


def _privacy(promise: Promise | None) -> Iterator[Row]:
    """The promise, in the registry's words: in its native currency, then as an epsilon."""
    if promise is None or promise.guarantee is None:
        yield Cell("deployment.dp_variant.variant_name"), Cell("missing", status="unknown", note="no promise holds")
        return
    guarantee, unit = promise.guarantee, promise.unit
    loss = "deployment.privacy_loss"
    yield _row("deployment.dp_variant.variant_name", guarantee.registered, guarantee.registered)
    yield _opened(f"{loss}.privacy_unit", unit.name)
    yield _opened(
        f"{loss}.privacy_unit_details",
        f"{words.relation(promise.relation)}; at most {words.count(unit.max_contributions, 'row')} of one {unit.name}, "
        "as declared when the scope was opened",
    )
    if isinstance(guarantee, ZCDP):
        yield _row(f"{loss}.privacy_parameters.rho", words.at_most(guarantee.rho), guarantee.rho)
    yield _row(f"{loss}.privacy_parameters.epsilon", words.at_most(promise.epsilon), promise.epsilon)
    if not isinstance(guarantee, PureDP):
        yield _row(f"{loss}.privacy_parameters.delta", words.at_most(promise.delta), promise.delta)
    whose = f"; ε is read at δ = {words.at_most(promise.delta)}, which the report chose" if promise.read else ""
    yield _row(
        f"{loss}.privacy_parameters_details",
        f"{words.guarantee(guarantee)} ({words.variant(guarantee)}), for everything that is ever released under "
        f"{named(promise.scopes)}{whose}",
    )


def _opened(field: str, text: str) -> Row:
    """A field from what a scope was opened with: the word of whoever opened it."""
    return Cell(field), Cell(text, text, status="declared", note="declared by whoever opened the scope")


def _rule(accounts: Sequence[ScopeAccount]) -> Iterator[Row]:
    rules = dict.fromkeys(words.filter_rule(account.filter) for account in accounts)
    if rules:
        yield _row("deployment.accounting.composition", _some(list(rules)))


def _mechanisms(accounts: Sequence[ScopeAccount]) -> Iterator[Row]:
    ran = dict.fromkeys(
        f"{words.tag(one.mechanism.kind)} ({visible(one.mechanism.library, 100)})"
        for account in accounts
        for one in account.admissions
        if one.status != "aborted"
    )
    if ran:
        yield _row("deployment.implementation.mechanisms", _some(sorted(ran)))


MOST = 12  # mechanisms, or rules of composition, in one field


def _some(found: Sequence[str]) -> str:
    more = len(found) - MOST
    return "; ".join(found[:MOST]) + (f"; and {more:,} more" if more > 0 else "")
