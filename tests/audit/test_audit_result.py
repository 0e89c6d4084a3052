"""What a result says, shows and hands to the ledger: never more than the evidence, and no data."""

from __future__ import annotations

import builtins
import itertools
import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dpledger.audit.evidence.bands import CellCounts, band
from dpledger.audit.evidence.thresholds import Direction
from hypothesis import given, strategies as st

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit import AuditResult, audit_mechanism, audit_outputs
from dpledger.audit.claims import Point
from dpledger.audit.plots import best_of, claimed_ceiling
from dpledger.audit.zoo import ZOO
from dpledger.errors import ParameterError
from dpledger.ledger.entries.members import Step
from dpledger.schema import plain


def audited(name: str, trials: int = 5_000) -> AuditResult:
    shown = ZOO[name]
    return audit_mechanism(
        shown.mechanism, shown.left, shown.right, shown.claim, trials=trials, batched=shown.batched, seed=1
    )


@pytest.mark.parametrize("name", ["laplace", "laplace_half_noise"])
def test_a_result_is_neither_true_nor_false(name: str) -> None:
    with pytest.raises(TypeError, match="not refuted is not proved"):
        bool(audited(name))


def test_the_summary_says_what_was_found_and_never_that_it_is_private() -> None:
    good, bad = str(audited("laplace")), str(audited("laplace_half_noise"))
    assert good.startswith("not refuted: pure_dp(epsilon=1) (this is no proof of privacy)")
    assert bad.startswith("violation: pure_dp(epsilon=1) is refuted")
    for text in (good, bad):
        assert "power: a true epsilon of" in text
        assert "proved" not in text
        assert "secure" not in text
    weak = audit_mechanism(ZOO["laplace"].mechanism, 0.0, 1.0, PureDP(9), trials=100, batched=True, seed=1)
    assert "use more trials" in str(weak)
    assert weak.power is None


@pytest.mark.parametrize(
    ("confidence", "told"),
    [("0.95", "95 %"), ("0.999", "99.9 %"), ("0." + "9" * 21, "99.9999 %")],
)
def test_a_confidence_is_never_rounded_up_to_certainty(confidence: str, told: str) -> None:
    shown = ZOO["laplace"]
    result = audit_mechanism(
        shown.mechanism, shown.left, shown.right, shown.claim, trials=100, batched=True, seed=1, confidence=confidence
    )
    assert f"(confidence {told}, " in str(result)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(
    "given", [None, 0.5, (1, 2), "word", np.nan, object()], ids=["None", "number", "pair", "word", "nan", "object"]
)
def test_a_result_says_where_nothing_was_released(given: object, batched: bool) -> None:
    def constant(data: float, *_: object) -> object:
        return [given] * int(_[0]) if batched else given  # type: ignore[call-overload]

    result = audit_mechanism(constant, 0.0, 1.0, PureDP(1), trials=400, batched=batched, seed=1)
    assert result.constant
    assert "every run gave the same output" in str(result)
    assert result.verdict == "not_refuted"


def test_a_single_run_that_differs_is_something_released() -> None:
    same = [0.5] * 400
    assert audit_outputs(same, same, PureDP(1)).constant
    for place in (0, 1, 399):
        other = [*same[:place], 0.25, *same[place + 1 :]]
        assert not audit_outputs(same, other, PureDP(1)).constant
        assert not audit_outputs(other, same, PureDP(1)).constant
    assert not audit_outputs(same, [1.5] * 400, PureDP(1)).constant
    assert not audit_outputs(same, ["0.5"] * 400, PureDP(1)).constant
    assert not audited("laplace").constant


def test_the_verdict_is_a_violation_exactly_when_a_look_refutes_its_point() -> None:
    for name in ("laplace", "laplace_half_noise"):
        result = audited(name)
        assert (result.verdict == "violation") == any(
            look.epsilon_lower > look.planned.point.epsilon for look in result.looks
        )
        assert (result.refuted is not None) == (result.verdict == "violation")


def test_the_body_for_the_ledger_holds_numbers_and_no_output() -> None:
    body = audited("report_raw_value").body((Step("patients", 3),))
    assert body.verdict == "violation"
    assert body.event.startswith("output equals one certain value; likelier on the")
    assert body.trials_left == body.trials_right == 5_000
    assert body.path[0].scope == "patients"
    assert body.claim == PureDP(1)
    assert "==" not in body.event
    json.dumps(plain(body))


def test_json_names_every_look_and_its_share_of_the_error_budget() -> None:
    result = audited("laplace_half_noise")
    document = json.loads(result.to_json())
    assert document["schema"] == "dpledger.audit.v1"
    assert sum(Decimal(look["share_of_error"]) for look in document["looks"]) == Decimal("0.05")
    assert Decimal(document["epsilon_lower"]) == result.epsilon_lower
    assert document["selected_on"] == {"left": 1250, "right": 1250}
    assert document["looks"][0]["runs"] == {"left": 3750, "right": 3750}
    assert document["pair"] == "float and float"


def test_the_plot_is_drawn_and_saved(tmp_path: Path) -> None:
    result = audited("laplace_half_noise")
    figure = result.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    words = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]  # type: ignore[union-attr]
    assert words[0] == "the claim: no event lies above this line"
    assert result.event.words in words[2]


def test_the_verdicts_event_is_drawn_where_the_violation_shows() -> None:
    """Cells on the other side say the same of the complements: the event, and the line through it, stay in place."""
    result = audited("laplace_half_noise")
    other = Direction.LEFT if result.cells.side is Direction.RIGHT else Direction.RIGHT
    turned = replace(result, cells=CellCounts(result.cells.rarer[::-1], result.cells.likelier[::-1], other))
    for shown in (result, turned):
        axes = shown.plot().axes[0]
        _, measured, event = axes.lines
        ((x, y),) = np.asarray(event.get_xydata())
        look = shown.witness
        assert (x, y) == (look.rarer_upper, look.likelier_lower)
        assert y > float(claimed_ceiling(np.array([x]), (shown.target.point,))[0])
        rates, detections = np.asarray(measured.get_xydata()).T
        assert np.interp(x, rates, detections) == pytest.approx(y, rel=0.1)
        side = "left" if look.planned.direction is Direction.LEFT else "right"
        assert axes.get_ylabel().endswith(f"on the {side} data")


@pytest.mark.parametrize("path", ["curve.xyz", "curve", "missing/curve.png", "folder.png", ""])
def test_a_picture_that_cannot_be_written_is_refused(path: str, tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ParameterError, match=r"^plot: expected a file"):
        audited("laplace").plot(tmp_path / path)
    assert [found.name for found in tmp_path.iterdir()] == ["folder.png"]


def test_without_matplotlib_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    result = audited("laplace")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ParameterError, match=r"dpledger\[plots\]"):
        result.plot()


def test_the_band_holds_the_true_curve_of_randomised_response_and_shrinks() -> None:
    """Its one test has false alarms 1/4 and misses 1/4."""
    widths = []
    for trials in (2_000, 50_000):
        (point,) = audited("randomized_response", trials).band
        assert point.false_alarm_lower <= 0.25 <= point.false_alarm_upper
        assert point.missed_lower <= 0.25 <= point.missed_upper
        widths.append(point.missed_upper - point.missed_lower)
    assert widths[1] < widths[0] / 3


def test_a_band_of_one_cell_still_has_limits() -> None:
    (point,) = band(CellCounts((100, 0), (100, 0), Direction.LEFT), 0.05)
    assert point.missed_lower == 0
    assert point.missed_upper < 0.06


def test_the_claimed_ceiling_is_the_one_of_dong_roth_su() -> None:
    rates = np.array([0.0, 0.1, 0.5, 1.0])
    ceiling = claimed_ceiling(rates, (Point(ApproxDP(1, "0.05").epsilon, Decimal("0.05")),))
    expected = [0.05, np.e * 0.1 + 0.05, 1 - (1 - 0.05 - 0.5) / np.e, 1.0]
    assert ceiling == pytest.approx(expected)


SHARES = st.floats(0, 1, width=16)


@given(st.lists(st.tuples(SHARES, SHARES), max_size=6), SHARES)
def test_what_the_band_says_at_least_is_the_best_lottery(tests: list[tuple[float, float]], rate: float) -> None:
    """Enumerated: of two tests, one with at most `rate` of false alarms and one with more, mixed so that the rate is
    met; or one alone that has no more."""
    both = [*((Fraction(x), Fraction(y)) for x, y in tests), (Fraction(0), Fraction(0)), (Fraction(1), Fraction(1))]
    exact = Fraction(rate)
    best = max(y for x, y in both if x <= exact)
    for (x0, y0), (x1, y1) in itertools.product(both, both):
        if x0 <= exact < x1:
            best = max(best, y0 + (y1 - y0) * (exact - x0) / (x1 - x0))
    assert float(best_of(tests, np.array([rate]))[0]) == pytest.approx(float(best), abs=1e-12)


@pytest.mark.parametrize("name", ["laplace", "laplace_half_noise", "gaussian_half_noise"])
def test_what_is_measured_at_least_is_a_line_without_a_notch(name: str) -> None:
    """It never falls as false alarms grow, nor turns upwards again."""
    axes = audited(name).plot().axes[0]
    (line,) = (one for one in axes.lines if str(one.get_label()).startswith("measured: at least"))
    rates, found = (np.asarray(one, dtype=float) for one in line.get_data())
    assert (np.diff(found) >= -1e-12).all()
    slopes = np.diff(found) / np.diff(rates)
    assert (np.diff(slopes) <= 1e-6 * slopes[:-1]).all()
