"""Tables of a ledger: typed rows, and pandas frames whose names and dtypes never depend on what is recorded."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, strategies as st

import ledger_golden
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.decimals import INFINITY, read
from dpledger.errors import BudgetRefused, ContractViolation
from dpledger.ledger.accounts import tables
from dpledger.ledger.accounts.recomposition import Admission
from dpledger.ledger.entries.members import LIBRARY
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.training.dp_sgd import DPSGD
from ledger_mechanisms import Once, laplace, stream, training

pytestmark = pytest.mark.sliced

RULES: dict[str, Any] = {"unit": "patient", "relation": "add_remove"}
BUDGETS: dict[str, Guarantee] = {
    "pure": PureDP(5),
    "either": ApproxDP(5, "0.000001"),
    "zcdp": ZCDP(2),
    "gdp": GDP(2),
    "rdp": RDP((2, 8), (1, 4)),
}


@pytest.fixture(scope="module")
def golden() -> Ledger:
    """Every kind of entry that this version writes."""
    return ledger_golden.build()


@pytest.fixture
def book() -> Ledger:
    return Ledger.in_memory()


@pytest.fixture
def scope(book: Ledger) -> Scope:
    return book.scope("s", budget=ApproxDP(5, "0.000001"), **RULES)


def documented(heading: str) -> dict[str, str]:
    """The names and dtypes that the module's docstring lists below `heading`."""
    assert tables.__doc__ is not None
    listed = tables.__doc__.split(heading)[1].split("\n\n")[1]
    return dict(re.findall(r"^    (\w+) +(datetime64\[s, UTC\]|\w+)", listed, re.MULTILINE))


def framed(table: tables.LedgerTable[Any]) -> Any:
    """The frame, in which pandas' own stubs would see a column of any type there is."""
    frame = table.to_frame()
    assert isinstance(frame, pd.DataFrame)
    return frame


def dtypes(frame: Any) -> dict[str, str]:
    return {name: str(dtype) for name, dtype in frame.dtypes.items()}


def row(frame: Any, index: int) -> dict[str, Any]:
    """The values of one row that are not missing."""
    return {str(name): value for name, value in frame.loc[index].items() if not pd.isna(value)}


# ---- what never depends on the record -------------------------------------------------------------------------------


def test_the_columns_of_entries_are_those_that_are_documented(golden: Ledger) -> None:
    frame = framed(golden.entries())
    assert dtypes(frame) == documented("`Ledger.entries()`")
    assert (frame.index.name, str(frame.index.dtype)) == ("index", "int64")
    assert list(frame.index) == list(range(len(golden)))
    elsewhere = framed(ledger_golden.build_kinds().entries())
    assert (frame.notna().any() | elsewhere.notna().any()).all()  # each column is filled, in ledgers of every kind


@pytest.mark.parametrize("name", BUDGETS)
def test_the_columns_of_releases_are_those_that_are_documented_whatever_the_budget(book: Ledger, name: str) -> None:
    scope = book.scope("s", budget=BUDGETS[name], **RULES)
    assert dtypes(framed(scope.releases())) == documented("`Scope.releases()`")
    scope.release(laplace(), 7)
    frame = framed(scope.releases())
    assert dtypes(frame) == documented("`Scope.releases()`")
    assert (frame.index.name, list(frame.index)) == ("index", [2])


def test_a_table_without_rows_has_the_same_columns(golden: Ledger, book: Ledger) -> None:
    nothing, all_of_it = framed(golden.entries(stop=0)), framed(golden.entries())
    assert len(nothing) == 0
    assert dtypes(nothing) == dtypes(all_of_it)
    assert list(nothing["kind"].cat.categories) == list(all_of_it["kind"].cat.categories)
    assert (nothing.index.name, str(nothing.index.dtype)) == ("index", "int64")
    unused = framed(book.scope("unused", budget=PureDP(1), **RULES).releases())
    assert len(unused) == 0
    joined = pd.concat([framed(golden.scope("clinic").releases()), unused])
    assert dtypes(joined) == documented("`Scope.releases()`")


def test_every_column_of_releases_is_filled_somewhere(scope: Scope) -> None:
    everything(scope)
    assert not framed(scope.releases()).isna().all().any()


def everything(scope: Scope) -> None:
    """A charge in each state, of each form."""
    scope.release(laplace("0.5"), "the-output-4711", key="count")
    with pytest.raises(ContractViolation):
        scope.release(Once(kind="faulty", run=lambda data, parts: None), "the-data-4711", key="faulty")
    with scope.open(stream("0.5", 2), None, key="stream") as answers:
        answers.ask(False)
    with scope.open(training(40), None, key="training", tail_delta=0) as run:
        run.ask(None)
    scope.reserve(laplace(), key="held")
    scope.reserve(laplace(), key="given-back").abort()
    scope.release(Once(kind="warned", run=warned), "the-output-4711", key="warned")
    scope.charge(
        PureDP("0.125"),
        key="elsewhere",
        relation="add_remove",
        of="unit",
        by="The ward",
        reason="the same patients",
        evidence="a letter",
    )


def warned(data: Any, parts: Any) -> Release[Any]:
    return Release(value=data, parts=parts, warnings=("not converged", "cut off"), outside_guarantee=True)


# ---- rows -----------------------------------------------------------------------------------------------------------


def test_a_table_is_rows_that_can_be_read_again_and_stays_as_it_was(book: Ledger, scope: Scope) -> None:
    table = book.entries()
    assert len(table) == 2
    book.declare("limits", "none", by="me")
    assert [entry.body.kind for entry in table] == ["ledger_opened", "scope_opened"]
    assert [entry.index for entry in table] == list(framed(table).index)
    assert len(book.entries()) == 3
    assert book.entry(1) in table
    assert book.entry(2) not in table
    assert "2 rows: time, kind, " in repr(table)
    assert len(book.entries(stop=1)) == 1
    assert len(book.entries(stop=99)) == len(list(book.entries(stop=99))) == 3


def test_releases_are_the_admissions_of_the_account(scope: Scope) -> None:
    everything(scope)
    table = scope.releases()
    assert tuple(table) == scope.account().admissions
    assert len(table) == 8
    assert all(isinstance(one, Admission) for one in table)


def test_a_release_is_one_row(book: Ledger, scope: Scope) -> None:
    receipt = scope.release(laplace("0.5"), 7, key="count")
    found = row(framed(scope.releases()), receipt.entry.index - 1)
    assert found.pop("time") == pd.Timestamp(str(book.entry(2).time))
    assert found.pop("charge") == receipt.entry.body.charge  # type: ignore[union-attr]
    assert found == {
        "scope": "s",
        "key": "count",
        "mechanism": "laplace",
        "library": LIBRARY,
        "form": "release",
        "claim": "pure_dp(epsilon=0.5)",
        "status": "committed",
        "rule": "cap",
        "ended": 3,
        "account": "pure",
        "reserved": Decimal("0.5"),
        "reserved_upper": 0.5,
        "charged": Decimal("0.5"),
        "charged_upper": 0.5,
        "reserved_delta": Decimal(0),
        "reserved_delta_upper": 0.0,
        "charged_delta": Decimal(0),
        "charged_delta_upper": 0.0,
        "outside_guarantee": False,
    }


def test_what_is_open_settled_and_given_back_can_be_told_apart(scope: Scope) -> None:
    everything(scope)
    running = scope.open(stream("0.1", 1), None, key="running")
    by_key = framed(scope.releases()).set_index("key")
    assert by_key["status"].to_dict() == {
        "count": "committed",
        "faulty": "committed",
        "stream": "committed",
        "training": "committed",
        "held": "reserved",
        "given-back": "aborted",
        "warned": "committed",
        "elsewhere": "committed",
        "running": "started",
    }
    assert by_key["rule"].isna().to_dict() == {**dict.fromkeys(by_key.index, False), **missing}
    still_open = by_key.loc[["held", "running"]]
    assert still_open["ended"].isna().all()
    assert still_open["outside_guarantee"].isna().all()
    assert (still_open["charged"] == still_open["reserved"]).all()
    assert by_key.loc["given-back", "charged"] == 0
    assert by_key.loc["given-back", "reserved"] == by_key.loc["held", "reserved"] > 0
    assert by_key.loc["stream", "charged"] < by_key.loc["stream", "reserved"]
    assert by_key.loc["training", "charged"] < by_key.loc["training", "reserved"]
    assert by_key.loc["training", ["steps", "granted"]].to_list() == [40, 2]
    assert by_key["outside_guarantee"].sum() == 2
    assert by_key.loc["warned", "warnings"] == "not converged; cut off"
    said = by_key[["attested", "reason", "evidence"]]
    assert list(said[said.notna().any(axis=1)].index) == ["elsewhere"]
    assert said.loc["elsewhere"].to_list() == ["The ward", "the same patients", "a letter"]
    running.close()


missing = dict.fromkeys(["held", "given-back", "running"], True)


def test_a_charge_from_below_stands_in_the_table_of_each_scope_above(book: Ledger) -> None:
    top = book.scope("top", budget=ApproxDP(5, "0.000001"), **RULES)
    ward = book.scope("ward", budget=PureDP(1), parents=["top"], **RULES)
    ward.release(laplace("0.5"), 7, key="w")
    top.release(laplace("0.25"), 7, key="t")
    assert framed(top.releases())["scope"].to_list() == ["ward", "top"]
    assert framed(ward.releases())["scope"].to_list() == ["ward"]
    assert framed(top.releases())["charged"].to_list() == [Decimal("0.5"), Decimal("0.25")]
    assert framed(book.entries())["scopes"].to_list()[3] == "top ward"


def test_the_claim_of_a_training_run_is_short_and_the_library_of_a_run_elsewhere_is_named(book: Ledger) -> None:
    scope = book.scope("s", budget=ApproxDP(5, "0.000001"), **RULES)
    plan = DPSGD(rate="0.1", steps=3, noise_multiplier=4, clip_norm=1, dimension=1, expected_batch_size=1)
    scope.open(plan, [[0.5]] * 10).close()
    scope.charge(
        PureDP("0.125"),
        relation="add_remove",
        by="The ward",
        reason="the same",
        mechanism="survey",
        library="tumult 2.1",
    )
    for frame in (framed(scope.releases()), framed(book.entries()).query("kind == 'reserved'")):
        assert frame["claim"].str.len().max() < 200
        assert frame["claim"].iloc[0].startswith("rdp(orders=[")
        assert frame[["mechanism", "library"]].iloc[1].to_list() == ["survey", "tumult 2.1"]


def test_refusals_are_rows_of_the_entries_and_no_releases(book: Ledger, scope: Scope) -> None:
    with pytest.raises(BudgetRefused):
        scope.release(laplace("7"), 7, key="too-much")
    refused = row(framed(book.entries()), 2)
    assert {name: refused[name] for name in ("kind", "scopes", "key", "mechanism", "level")} == {
        "kind": "refused",
        "scopes": "s",
        "key": "too-much",
        "mechanism": "laplace",
        "level": "s",
    }
    assert len(scope.releases()) == 0


def test_entries_of_a_run_carry_no_time(golden: Ledger) -> None:
    frame = framed(golden.entries())
    assert set(frame.loc[frame["time"].isna(), "kind"]) == {"started", "progress", "committed"}


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_every_time_that_an_entry_may_carry_has_a_place(time: str) -> None:
    frame = framed(Ledger.in_memory(clock=lambda: time).entries())
    assert frame["time"].dt.strftime("%Y").to_list() in (["1"], [time[:4]])
    assert frame["time"][0] == pd.Timestamp(time).as_unit("s")


# ---- amounts --------------------------------------------------------------------------------------------------------


@given(st.decimals(min_value=0, max_value=10**17, places=30, allow_nan=False))
def test_a_float_is_never_below_the_amount(amount: Decimal) -> None:
    exact = read(amount)
    shown = framed(tables.releases_table((admission(exact),)))["charged_upper"].iloc[0]
    assert Decimal(shown) >= exact
    assert exact == 0 or Decimal(math.nextafter(shown, 0)) < exact


def admission(charged: Decimal) -> Admission:
    book = Ledger.in_memory()
    scope = book.scope("s", budget=PureDP(1), **RULES)
    scope.release(laplace("0.5"), 7)
    (one,) = scope.releases()
    values = {name: getattr(one, name) for name in one.__dataclass_fields__}
    return Admission(**{**values, "charged": {"pure": charged}})


def test_round_amounts_stay_round(scope: Scope) -> None:
    scope.release(laplace("1"), 7)
    scope.release(laplace("0.1"), 7)
    frame = framed(scope.releases())
    assert frame["charged"].to_list() == [Decimal(1), Decimal("0.1")]
    assert frame["charged_upper"].to_list() == [1.0, 0.1]
    assert frame["charged"].sum() == Decimal("1.1")


def test_an_amount_without_a_price_is_infinite_in_both_forms() -> None:
    one = admission(Decimal(0))
    values = {name: getattr(one, name) for name in one.__dataclass_fields__}
    frame = framed(tables.releases_table((Admission(**{**values, "charged": {}}),)))
    assert frame.loc[2, ["charged", "charged_upper"]].to_list() == [INFINITY, float("inf")]


# ---- what is not in them --------------------------------------------------------------------------------------------


def test_no_output_and_no_data_are_in_any_table(book: Ledger) -> None:
    for keep in ("value", "digest", "none"):
        scope = book.scope(keep, budget=ApproxDP(5, "0.000001"), keep=keep, **RULES)
        everything(scope)
        told = framed(book.entries()).to_csv() + framed(scope.releases()).to_csv()
        assert "laplace" in told
        assert "-4711" not in told  # no digest holds a hyphen


def test_pandas_is_loaded_by_those_who_ask_for_a_frame() -> None:
    code = (
        "import sys\n"
        "from dpledger.ledger.ledger import Ledger\n"
        "entries = Ledger.in_memory().entries()\n"
        "assert len(list(entries)) == 1 and 'pandas' not in sys.modules\n"
        "print(len(entries.to_frame()), 'pandas' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.split() == ["1", "True"]
