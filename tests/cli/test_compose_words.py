"""What `dpledger compose` says beside its bounds: how far apart they are and why, and that an epsilon is infinite."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal

import pytest
from typer.testing import CliRunner

from dpledger.cli import app

GAUSSIAN: Mapping[str, object] = {"kind": "gaussian", "noise_multiplier": "1"}


def said(mechanism: Mapping[str, object], *words: str, count: int = 1, relation: str = "add_remove") -> str:
    document = {"relation": relation, "entries": [{"count": count, "mechanism": mechanism}]}
    done = CliRunner().invoke(app, ["compose", "-", *words], input=json.dumps(document))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_narrow_bounds_say_how_narrow() -> None:
    bounds, apart = said(GAUSSIAN, "--delta", "1e-5").splitlines()
    assert bounds.startswith("epsilon at delta 1e-5: [4.37717809")
    share = re.fullmatch(r"the bounds differ by (\S+) of the upper one", apart)
    assert share is not None
    assert float(share[1]) < 1e-11


@pytest.mark.parametrize(
    ("mechanism", "relation", "word"),
    [
        ({"kind": "zcdp", "rho": "0.1"}, "add_remove", "zcdp and rdp"),
        ({"kind": "rdp", "orders": ["2"], "epsilons": ["0.1"]}, "add_remove", "zcdp and rdp"),
        ({"kind": "bounded_range", "eta": "1"}, "add_remove", "envelope"),
        (
            {"kind": "sampled_without_replacement", "population": 1000, "batch": 10, "of": GAUSSIAN},
            "replace_one",
            "sampled_without_replacement",
        ),
    ],
)
def test_wide_bounds_say_why(mechanism: Mapping[str, object], relation: str, word: str) -> None:
    lines = said(mechanism, "--delta", "1e-5", count=10, relation=relation).splitlines()
    assert [line for line in lines if line.startswith("why: ") and word in line] == lines[2:]


def test_ranges_of_several_sizes_are_told_of_the_order() -> None:
    """In any order, unless it is said that the document's was fixed beforehand."""
    ranges = [{"kind": "bounded_range", "eta": eta} for eta in map(str, range(1, 11))]
    both = {"kind": "sequence", "of": ranges}
    *_, any_order = said(both, "--delta", "1e-6", count=1).splitlines()
    assert any_order.endswith("(effort=12, --effort 12)")
    wide, close = (said(both, "--delta", "1e-6", "--order", order, "--json", count=1) for order in ("any", "given"))
    assert json.loads(close)["epsilon"]["upper"] < json.loads(wide)["epsilon"]["upper"]
    assert "--order" not in said(both, "--delta", "1e-6", "--order", "given", count=1)


def test_more_effort_brings_the_bounds_closer() -> None:
    ranges = {"kind": "sequence", "of": [{"kind": "bounded_range", "eta": f"0.1{k}"} for k in range(10)]}
    once, more = (
        json.loads(said(ranges, "--delta", "1e-6", "--effort", effort, "--json"))["epsilon"] for effort in ("1", "12")
    )
    assert float(more["upper"]) < float(once["upper"]) * (1 - 1e-2)
    assert more["lower"] == once["lower"]


@pytest.mark.parametrize("effort", ["0", "65", "-1"])
def test_an_effort_that_is_none_is_refused(effort: str) -> None:
    document = {"relation": "add_remove", "entries": [{"mechanism": GAUSSIAN}]}
    words = ["compose", "-", "--delta", "1e-5", "--effort", effort]
    done = CliRunner().invoke(app, words, input=json.dumps(document))
    assert done.exit_code == 2
    assert "effort" in done.stderr
    assert "64" in done.stderr


def test_another_word_for_the_order_is_refused() -> None:
    document = {"relation": "add_remove", "entries": [{"mechanism": GAUSSIAN}]}
    words = ["compose", "-", "--delta", "1e-5", "--order", "best"]
    done = CliRunner().invoke(app, words, input=json.dumps(document))
    assert done.exit_code == 2
    assert "any or given" in done.stderr


@pytest.mark.parametrize(
    ("mechanism", "delta"),
    [
        (GAUSSIAN, "0"),
        ({"kind": "approx_dp", "epsilon": "1", "delta": "1e-5"}, "1e-6"),
        ({"kind": "pmf", "left": ["1", "0"], "right": ["0", "1"]}, "0.5"),
    ],
)
def test_an_infinite_epsilon_is_said_to_be_infinite(mechanism: Mapping[str, object], delta: str) -> None:
    bounds, reason = said(mechanism, "--delta", delta).splitlines()
    assert bounds.endswith("[infinite, infinite]")
    assert reason.startswith("no finite epsilon")
    assert json.loads(said(mechanism, "--delta", delta, "--json"))["epsilon"] == {"lower": "inf", "upper": "inf"}


def test_where_only_the_upper_end_is_infinite_that_is_said() -> None:
    _, reason, why = said({"kind": "zcdp", "rho": "0.1"}, "--delta", "0").splitlines()
    assert reason.startswith("no upper bound")
    assert "zcdp" in why


@pytest.mark.parametrize("noise", ["0", 0, "0.0", "-0"])
def test_no_noise_is_refused_with_what_it_means(noise: object) -> None:
    document = {
        "relation": "add_remove",
        "entries": [{"mechanism": {"kind": "gaussian", "noise_multiplier": noise}}],
    }
    done = CliRunner().invoke(app, ["compose", "-", "--delta", "1e-5"], input=json.dumps(document))
    assert done.exit_code == 2
    assert "noise_multiplier" in done.stderr
    assert "epsilon is infinite" in done.stderr


def test_a_delta_is_rounded_outward() -> None:
    """0.38292492254802620728: ten digits below, ten digits above."""
    low, high = re.findall(r"[\d.]+e?-?\d*(?=[,\]])", said(GAUSSIAN, "--epsilon", "0").splitlines()[0])
    assert Decimal(low) <= Decimal("0.38292492254802620728") <= Decimal(high)
    assert Decimal(high) - Decimal(low) == Decimal("1e-10")


def test_a_delta_that_no_float_holds_is_not_said_to_be_zero() -> None:
    assert said(GAUSSIAN, "--epsilon", "1e400").startswith("delta at epsilon 1e400: [0, 4.9")
    few = re.fullmatch(r"delta at epsilon 1: \[0, (.*)\]\n", said({"kind": "zcdp", "rho": "1e-60"}, "--epsilon", "1"))
    assert few is not None
    assert 0 < Decimal(few[1]) < Decimal("1e-320")


def test_ten_thousand_distinct_mechanisms_are_one_document() -> None:
    noises = [{"kind": "gaussian", "noise_multiplier": f"{100 + i}.5"} for i in range(10_000)]
    document = {"relation": "add_remove", "entries": [{"mechanism": mechanism} for mechanism in noises]}
    done = CliRunner().invoke(app, ["compose", "-", "--delta", "1e-6", "--json"], input=json.dumps(document))
    squares = sum(1 / (100.5 + i) ** 2 for i in range(10_000))
    bounds = json.loads(done.stdout)["epsilon"]
    one = said({"kind": "gdp", "mu": f"{squares**0.5:.15f}"}, "--delta", "1e-6", "--json")
    assert bounds["upper"] == pytest.approx(json.loads(one)["epsilon"]["upper"], rel=1e-9)
