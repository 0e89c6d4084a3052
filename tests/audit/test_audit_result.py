"""What a result says, shows and hands to the ledger: never more than the evidence, and no data."""

from __future__ import annotations

import builtins
import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit import AuditResult, audit_mechanism, audit_outputs
from dpledger.audit.results.plots import claimed_ceiling
from dpledger.audit.tested.claims import ClaimPoint
from dpledger.audit.zoo import ZOO
from dpledger.errors import ParameterError
from dpledger.ledger.entries.members import Step
from dpledger.schema import plain

pytestmark = pytest.mark.sliced


def audited(name: str, trials: int = 5_000) -> AuditResult:
    shown = ZOO[name]
    return audit_mechanism(
        shown.mechanism, shown.left, shown.right, shown.claim, trials=trials, batched=shown.batched, seed=1
    )


@pytest.mark.parametrize("name", ["laplace", "laplace_half_noise"])
def test_a_result_is_neither_true_nor_false(name: str) -> None:
    with pytest.raises(TypeError, match="not refuted does not mean proved"):
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
    assert "power: unknown" in str(weak)
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
def test_a_result_is_blind_where_nothing_was_released(given: object, batched: bool) -> None:
    def constant(data: float, *_: object) -> object:
        return [given] * int(_[0]) if batched else given  # type: ignore[call-overload]

    result = audit_mechanism(constant, 0.0, 1.0, PureDP(1), trials=400, batched=batched, seed=1)
    assert result.blind == "all runs of both sides gave the same output"
    assert str(result).startswith("blind, so nothing follows")
    assert result.verdict == "not_refuted"
    body = result.body()
    assert (body.blind, body.e_value, body.power) == (result.blind, None, None)
    assert body.epsilon_lower == 0


def test_a_single_run_that_differs_is_something_released() -> None:
    def same() -> list[object]:
        return [0.5] * 400

    assert audit_outputs(same(), same(), PureDP(1)).blind is not None
    for place in (0, 1, 399):
        other = [*same()[:place], 0.25, *same()[place + 1 :]]
        assert audit_outputs(same(), other, PureDP(1)).blind is None
        assert audit_outputs(other, same(), PureDP(1)).blind is None
    assert audit_outputs(same(), [1.5] * 400, PureDP(1)).blind is None
    assert audit_outputs(same(), ["0.5"] * 400, PureDP(1)).blind is None
    assert audited("laplace").blind is None


def test_the_verdict_is_a_violation_exactly_when_the_bound_reaches_the_claim() -> None:
    for name in ("laplace", "laplace_half_noise"):
        result = audited(name)
        assert (result.verdict == "violation") == (result.epsilon_lower >= result.target.point.epsilon)
        assert (result.refuted is not None) == (result.verdict == "violation")


def test_the_body_for_the_ledger_holds_numbers_and_no_output() -> None:
    result = audited("report_raw_value")
    body = result.body((Step("patients", 3),))
    assert body.verdict == "violation"
    assert body.event.startswith(("output equals one certain value, in ", "what output has in common with the data: "))
    assert body.trials_left == body.trials_right == result.trials
    assert body.path[0].scope == "patients"
    assert body.claim == PureDP(1)
    assert "==" not in body.event
    assert body.e_value is not None
    assert body.e_value >= 20
    json.dumps(plain(body))


def test_json_says_where_the_error_budget_went() -> None:
    result = audited("laplace_half_noise")
    document = json.loads(result.to_json())
    assert document["schema"] == "dpledger.audit.v2"
    assert sum(share.alpha for share in result.budget) == Fraction(1, 20)
    assert len(document["budget"]) == len(result.budget)
    assert Decimal(document["epsilon_lower"]) == result.epsilon_lower
    assert document["fell_after"] <= document["trials"]["left"]
    assert document["pair"] == "float and float"


def test_the_plot_is_drawn_and_saved(tmp_path: Path) -> None:
    result = audited("laplace_half_noise")
    figure = result.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    wealth, curve = figure.axes
    said = [text.get_text() for text in curve.get_legend().get_texts()]  # type: ignore[union-attr]
    assert said[0] == "the claim: no event lies above this line"
    assert result.event is not None
    assert result.event.words in said[2]
    assert wealth.get_title() == f"e-value {result.e_value:.4g}"


def test_the_event_is_drawn_above_the_claim_where_it_is_broken() -> None:
    result = audited("laplace_half_noise")
    *_, event = result.plot().axes[1].lines
    ((x, y),) = np.asarray(event.get_xydata())
    assert y > float(claimed_ceiling(np.array([x]), (result.target.point,))[0])


def test_the_e_value_that_is_drawn_is_the_one_that_is_told_and_crosses_the_line_where_the_claim_fell() -> None:
    result = audited("laplace_half_noise")
    _, largest, level, fell = result.plot().axes[0].lines
    runs, powers = np.asarray(largest.get_xydata()).T
    assert 10 ** powers[-1] == pytest.approx(result.e_value)
    assert (np.diff(powers) >= 0).all()
    line = float(np.asarray(level.get_ydata())[0])
    assert 10**line == pytest.approx(20)
    (crossed,) = np.unique(np.asarray(fell.get_xdata()))
    assert crossed == result.evidence.fell_after
    assert (powers[runs < crossed] < line).all()
    assert powers[-1] >= line


def test_of_an_ex_post_claim_the_losses_are_drawn() -> None:
    def priced(data: float, rng: np.random.Generator) -> tuple[float, float]:
        scale = float(rng.choice([1.0, 2.0]))
        return data + 0.5 * scale * rng.laplace(), 1 / scale

    claim = dpl.ex_post.ExPostClaim(loss=lambda output: output[1])
    result = dpl.audit_mechanism(priced, 0.0, 1.0, claim, trials=2_000, seed=1)
    event, strata, ceiling = result.plot().axes[1].lines
    assert np.asarray(strata.get_xdata()).tolist() == [0.5, 1.0]
    ((loss, found),) = np.asarray(event.get_xydata())
    assert found > loss
    assert np.array_equal(ceiling.get_xdata(), ceiling.get_ydata())


def test_of_a_blind_audit_no_event_is_drawn() -> None:
    result = dpl.audit_mechanism(lambda _data, _rng: 1, 0.0, 1.0, dpl.PureDP(1), trials=200, seed=1)
    assert len(result.plot().axes[1].lines) == 1


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


def test_the_claimed_ceiling_is_the_one_of_dong_roth_su() -> None:
    rates = np.array([0.0, 0.1, 0.5, 1.0])
    ceiling = claimed_ceiling(rates, (ClaimPoint(ApproxDP(1, "0.05").epsilon, Decimal("0.05")),))
    expected = [0.05, math.e * 0.1 + 0.05, 1 - (1 - 0.05 - 0.5) / math.e, 1.0]
    assert ceiling == pytest.approx(expected)
