"""Audits that run no mechanism, or look at nothing but its doubles: what each finds and what it leaves alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.audit.analytic.doubles import Reach
from dpledger.audit.analytic.rationals import Rational, exactly
from dpledger.errors import ParameterError

UNIT = {"rows": {"type": "number", "low": 0, "high": 1}}
RUN = dpl.Repeated(dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.01"), times=1000)
Generator = np.random.Generator


def scope() -> dpl.Scope:
    return dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=dpl.ApproxDP(9, "1e-5"))


class TestAccounts:
    def test_a_claim_below_what_is_lost_falls_for_certain(self) -> None:
        found = dpl.analytic.audit_account(RUN, dpl.ApproxDP(2, "1e-6"))
        assert (found.verdict, found.is_kept) == ("violation", False)
        assert found.lost > 2
        assert "for certain" in str(found)

    def test_a_claim_that_follows_is_kept(self) -> None:
        found = dpl.analytic.audit_account((RUN, 1), dpl.ApproxDP("2.2", "1e-6"))
        assert (found.verdict, found.is_kept) == ("not_refuted", True)

    def test_a_claim_between_the_bounds_cannot_be_told(self) -> None:
        bounds = dpl.compose(RUN).epsilon("1e-6")
        between = dpl.ApproxDP(str((bounds.lower + bounds.upper) / 2), "1e-6")
        found = dpl.analytic.audit_account(RUN, between)
        assert (found.verdict, found.is_kept) == ("not_refuted", False)
        assert "between the two bounds" in str(found)

    @pytest.mark.parametrize("claim", [dpl.PureDP(5), dpl.GDP("0.4"), dpl.ZCDP("0.01")])
    def test_of_a_curve_any_point_may_fall(self, claim: Any) -> None:
        assert dpl.analytic.audit_account(RUN, claim).verdict == "violation"

    def test_a_gaussian_keeps_its_curve(self) -> None:
        assert dpl.analytic.audit_account(dpl.GaussianLaw(2), dpl.GDP("0.5")).is_kept
        assert dpl.analytic.audit_account(dpl.GaussianLaw(2), dpl.GDP("0.49")).verdict == "violation"

    @pytest.mark.parametrize("epsilon", [2, "2.5"])
    def test_it_goes_on_record(self, epsilon: object) -> None:
        found = dpl.analytic.audit_account(RUN, dpl.ApproxDP(epsilon, "1e-6"))  # type: ignore[arg-type]
        entry: Any = scope().record(found)
        assert (entry.body.verdict, entry.body.method) == (found.verdict, "account")

    def test_an_infinite_loss_goes_on_record(self) -> None:
        found = dpl.analytic.audit_account(dpl.GaussianLaw(1), dpl.PureDP(1))
        assert math.isinf(found.bounds.lower)
        entry: Any = scope().record(found)
        assert entry.body.verdict == "violation"


def clipped(rows: list[float]) -> float:
    return sum(min(max(row, 0.0), 1.0) for row in rows)


def counted_in_a_byte(rows: list[bool]) -> int:
    return int(np.array(rows, dtype=bool).sum(dtype=np.int8))


def mean(rows: list[float]) -> float:
    return sum(rows) / max(1, len(rows))


class TestSensitivities:
    def test_a_float_sum_moves_further_than_the_sum(self) -> None:
        found = dpl.analytic.audit_sensitivity(clipped, 1, neighbours=UNIT, pairs=600)
        assert found.moved is not None
        assert found.verdict == "violation"
        assert found.exact == 1
        assert 1 < found.moved < 1 + Fraction(1, 2**40)
        assert "rounding" in str(found)
        assert len(found.left) < 16  # of up to 128 rows

    def test_a_grid_may_cover_the_rounding(self) -> None:
        found = dpl.analytic.audit_sensitivity(
            clipped, dpl.Laplace(sensitivity=1, epsilon=1), neighbours=UNIT, pairs=600
        )
        assert (found.verdict, found.exceeds) == ("not_refuted", True)
        assert "on its grid" in str(found)

    def test_what_a_clip_lets_through_is_found(self) -> None:
        found = dpl.analytic.audit_sensitivity(clipped, 1, neighbours={"rows": {"type": "number"}}, pairs=99)
        assert (found.verdict, found.moved) == ("violation", None)
        assert "no finite number" in str(found)

    @pytest.mark.parametrize(
        ("query", "schema", "moved"),
        [
            (lambda rows: max(rows, default=0), {"rows": {"type": "number", "low": 0, "high": 7}}, 7),
            (counted_in_a_byte, {"rows": {"type": "boolean"}}, 255),
            (lambda rows: {"n": len(rows), "last": rows[-1] if rows else 0}, UNIT, 2),
            (mean, UNIT | {"most_rows": 1}, 1),
        ],
    )
    def test_the_smallest_pair_is_told(self, query: Callable[[Any], Any], schema: Any, moved: int) -> None:
        found = dpl.analytic.audit_sensitivity(query, 1 if moved > 1 else "0.5", neighbours=schema, pairs=500)
        assert found.verdict == "violation"
        assert found.moved == moved

    @pytest.mark.parametrize(
        ("query", "declared", "norm", "relation"),
        [
            (len, 1, "l1", "add_remove"),
            (lambda rows: np.histogram(rows, bins=3, range=(0, 1))[0], 2, "l1", "replace_one"),
            (lambda rows: np.histogram(rows, bins=3, range=(0, 1))[0], "1.4142136", "l2", "replace_one"),
            (lambda rows: sum(round(row * 1024) for row in rows), dpl.Geometric(sensitivity=1024, epsilon=1), "l1",
             "add_remove"),
        ],
    )  # fmt: skip
    def test_what_is_declared_rightly_is_left_alone(
        self, query: Callable[[Any], Any], declared: Any, norm: Any, relation: str
    ) -> None:
        found = dpl.analytic.audit_sensitivity(
            query, declared, norm=norm, neighbours=UNIT, relation=relation, pairs=200
        )
        assert found.verdict == "not_refuted"

    def test_the_l2_norm_is_less_than_the_l1(self) -> None:
        def histogram(rows: list[float]) -> Any:
            return np.histogram(rows, bins=3, range=(0, 1))[0]

        found = dpl.analytic.audit_sensitivity(
            histogram, "1.4", norm="l2", neighbours=UNIT, relation="replace_one", pairs=99
        )
        assert found.moved is not None
        assert abs(found.moved**2 - 2) < Fraction(1, 10**15)

    def test_an_exception_on_one_side_is_covered_by_no_noise(self) -> None:
        found = dpl.analytic.audit_sensitivity(lambda rows: rows[0], 1, neighbours=UNIT, pairs=99)
        assert (found.verdict, found.moved) == ("violation", None)

    def test_it_goes_on_record_under_the_mechanism_that_adds_the_noise(self) -> None:
        noise = dpl.Gaussian(sensitivity=1, noise_multiplier=1)
        for query, verdict in ((max, "violation"), (len, "not_refuted")):
            schema = {"rows": {"type": "number", "low": 0, "high": 9}, "fewest_rows": 1}
            found = dpl.analytic.audit_sensitivity(query, noise, neighbours=schema, pairs=99)
            entry: Any = scope().record(found)
            assert (entry.body.verdict, entry.body.mechanism.kind) == (verdict, "gaussian")
            assert "9" not in entry.body.event.replace("99", "")

    def test_a_report_shows_them(self) -> None:
        book = dpl.Ledger.in_memory()
        account = dpl.analytic.audit_account(RUN, dpl.ApproxDP(2, "1e-6"))
        schema = {"rows": {"type": "number", "low": 0, "high": 9}, "fewest_rows": 1}
        moved = dpl.analytic.audit_sensitivity(max, dpl.Laplace(sensitivity=1, epsilon=1), neighbours=schema, pairs=9)
        for found in (account, moved):
            book.record(found)
        told = dpl.report(book).markdown()
        assert "composed again from its parameters" in told
        assert "searched for the sensitivity" in told

    def test_a_bare_sensitivity_has_no_claim_to_record(self) -> None:
        with pytest.raises(ParameterError, match="the mechanism"):
            scope().record(dpl.analytic.audit_sensitivity(len, 1, neighbours=UNIT, pairs=9))

    def test_what_is_no_function_of_the_data_is_refused(self) -> None:
        rng = np.random.default_rng(1)
        with pytest.raises(ParameterError, match="data alone"):
            dpl.analytic.audit_sensitivity(lambda rows: rng.normal(), 1, neighbours=UNIT, pairs=9)

    def test_an_output_that_the_mechanism_does_not_take_is_refused(self) -> None:
        noise = dpl.Laplace(sensitivity=1, epsilon=1)
        with pytest.raises(ParameterError, match="query: expected what laplace takes"):
            dpl.analytic.audit_sensitivity(lambda rows: [1, 2], noise, neighbours=UNIT, pairs=9)

    def test_fractions_stay_fractions(self) -> None:
        assert isinstance(1.0 - exactly([0.1])[0] / 2.0, Rational)
        assert exactly(np.array([[0.5, math.inf]])).tolist() == [[Fraction(1, 2), math.inf]]
        assert exactly(({"a": 0.25}, "x", True)) == ({"a": Fraction(1, 4)}, "x", True)


def laplace(value: float, rng: Generator) -> float:
    return value + float(rng.laplace())


def by_inversion(value: float, rng: Generator) -> float:
    half = rng.random() - 0.5
    return value - math.copysign(1.0, half) * math.log(max(1 - 2 * abs(half), 5e-324))


def on_a_grid(value: float, rng: Generator) -> float:
    return round((value + rng.laplace()) * 64) / 64


class TestDoubles:
    @pytest.mark.parametrize("noisy", [laplace, by_inversion])
    def test_each_neighbour_reaches_doubles_of_its_own(self, noisy: Callable[[float, Generator], float]) -> None:
        found = dpl.analytic.audit_doubles(noisy, 0.0, 1.0, dpl.PureDP(1), seed=1, progress=False)
        assert found.verdict == "violation"
        assert found.trials < 60
        entry: Any = scope().record(found)
        assert entry.body.verdict == "violation"

    def test_numbers_on_a_grid_are_within_reach_of_both(self) -> None:
        found = dpl.analytic.audit_doubles(on_a_grid, 0.0, 1.0, dpl.PureDP(1), seed=1, trials=100, progress=False)
        assert found.verdict == "not_refuted"

    def test_what_a_word_gives_is_found_again(self) -> None:
        reach, rng = Reach.of(laplace, 0.3), np.random.default_rng(1)
        outputs = [laplace(0.3, rng) for _ in range(20)]
        assert all(map(reach.holds, outputs))
        assert not all(map(reach.holds, (np.nextafter(output, 9) for output in outputs)))

    def test_noise_of_several_words_is_refused(self) -> None:
        with pytest.raises(ParameterError, match="one word"):
            dpl.analytic.audit_doubles(lambda x, rng: x + rng.normal(size=4).sum(), 0.0, 1.0, dpl.PureDP(1))
