"""What a sparse vector costs: whether its scales keep its claim, and what a published pattern of answers reveals."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

from dpledger.accounting.families.sparse_vector.leaf import SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.families.sparse_vector.pure_steps import few_charges, kov_delta
from dpledger.accounting.families.sparse_vector.stability import stability_delta
from dpledger.accounting.guarantees import PrivacyFailure
from dpledger.decimals import ZERO, add, round_up, subtract
from dpledger.errors import ClaimTooSmall, ParameterError

__all__ = [
    "certify",
    "composition_delta",
    "delta_by_cause",
    "epoch_epsilon",
    "ex_post_epsilon",
    "require_possible",
    "target_delta",
]


def epoch_epsilon(law: SparseVectorLaw) -> Fraction:
    """The pure epsilon of one epoch, 1/threshold_scale + 2/query_scale (monotone: 1/query_scale); in target_charging of
    one test, 1/query_scale.

    Claim: one epoch is result-DP for adaptively chosen queries. Source: docs/proofs/sparse_vector.md, "One epoch".
    """
    return 1 / Fraction(law.query_scale) if law.mode == "target_charging" else _shift(law) + _charge(law)


def _charge(law: SparseVectorLaw) -> Fraction:
    """What the charged test of an epoch costs, the threshold having moved."""
    return (1 if law.monotone else 2) / Fraction(law.query_scale)


def _shift(law: SparseVectorLaw) -> Fraction:
    """What moving the threshold by the sensitivity costs."""
    return 1 / Fraction(law.threshold_scale)


@lru_cache(maxsize=1024)
def certify(law: SparseVectorLaw) -> None:
    """Checks that the law's scales keep its (epsilon, delta), by the composition that its mode names, and that delta
    covers the values that it releases.

    Raises ParameterError for scales that the mode cannot have, ClaimTooSmall if they give more than is claimed.
    Source: docs/proofs/sparse_vector.md, "A whole run", "Released values".
    """
    _require_shape(law)
    needed = add(composition_delta(law), stability_delta(law))
    if needed > law.delta:
        raise ClaimTooSmall(
            f"sparse_vector claims delta {law.delta} at epsilon {law.epsilon}, its scales give {round_up(needed)}"
        )


def composition_delta(law: SparseVectorLaw) -> Decimal:
    """What composing the tests needs of delta at the law's epsilon; 0 in the pure modes, ClaimTooSmall where their
    scales do not keep it.

    Claim: the answers alone, without values, are (epsilon, result)-DP. Source: docs/proofs/sparse_vector.md, "A whole
    run"."""
    match law.mode:
        case "single_threshold":
            _require_epsilon(law, _shift(law) + law.cutoff * _charge(law))
            return ZERO
        case "basic":
            _require_epsilon(law, law.cutoff * epoch_epsilon(law))
            return ZERO
        case "dr14" | "zcdp" | "kov":
            return kov_delta(law.epsilon, epoch_epsilon(law), law.cutoff)
        case "target_charging":
            return target_delta(law.epsilon, epoch_epsilon(law), law.cutoff, law.calls or 0)
        case _:
            assert_never(law.mode)


def delta_by_cause(law: SparseVectorLaw) -> tuple[PrivacyFailure, ...]:
    """The delta of a law that is certified, by its causes, which add up to it: composition, what it needs at these
    scales; stability, the rest. Where no value is released all of it is composition's."""
    if law.stable_at is None:
        return (PrivacyFailure(law.delta, "composition"),) if law.delta else ()
    certify(law)
    composition = composition_delta(law)
    failures = (PrivacyFailure(subtract(law.delta, composition), "stability"),)
    return (PrivacyFailure(composition, "composition"), *failures) if composition else failures


def _require_shape(law: SparseVectorLaw) -> None:
    charging = law.mode == "target_charging"
    if charging == bool(law.threshold_scale):
        wanted = "0 (target_charging draws no threshold noise)" if charging else "a number above 0"
        raise ParameterError("SparseVectorLaw.threshold_scale", law.threshold_scale, wanted)
    if charging and (law.calls is None or law.calls < law.cutoff):
        raise ParameterError("SparseVectorLaw.calls", law.calls, "at least the cutoff in mode target_charging")
    if not charging and law.calls is not None:
        raise ParameterError("SparseVectorLaw.calls", law.calls, "nothing (only mode target_charging counts calls)")
    if charging and law.monotone:
        expected = "nothing in mode target_charging, where a test costs the same anyway"
        raise ParameterError("SparseVectorLaw.monotone", law.monotone, expected)
    if law.falling and (law.mode != "single_threshold" or law.cutoff > 1 or law.stable_at is not None):
        expected = "nothing but in mode single_threshold with cutoff 1, which releases no values"
        raise ParameterError("SparseVectorLaw.falling", law.falling, expected)


def _require_epsilon(law: SparseVectorLaw, epsilon: Fraction) -> None:
    if epsilon > Fraction(law.epsilon):
        raise ClaimTooSmall(f"sparse_vector claims epsilon {law.epsilon}, its scales give {round_up(epsilon)}")


def target_delta(epsilon: Decimal, step_epsilon: Fraction, cutoff: int, calls: int) -> Decimal:
    """kov_delta of `calls` tests, plus the chance that a run needs more of them.

    Claim: a target-charging run is (epsilon, result)-DP. Source: Cohen-Lyu 2023; docs/proofs/sparse_vector.md.
    """
    return add(kov_delta(epsilon, step_epsilon, calls), few_charges(cutoff, step_epsilon, calls))


def ex_post_epsilon(law: SparseVectorLaw, outcome: SparseVectorOutcome) -> Decimal:
    """What the published pattern of passes and fails reveals, rounded up; never above the cap by more than the law's
    composition saved (the caller takes the smaller).

    Claim: |log P(pattern)/P'(pattern)| <= result for every pair of neighbours, for the tests that were asked; of values
    that are released with the pattern, as long as no critical one was ("Released values").
    Source: docs/proofs/sparse_vector.md, "Ex-post loss". Raises ParameterError for an outcome that the law cannot have.
    """
    require_possible(law, outcome)
    per_test = 1 / Fraction(law.query_scale)
    tests = outcome.tests
    match law.mode:
        case "target_charging":
            return round_up(tests * per_test)
        case "single_threshold":
            reached = min(_shift(law) + len(outcome.closed_epochs) * _charge(law), tests * per_test)
            return round_up(reached / Fraction(outcome.ratio or 1))
        case "basic" | "dr14" | "zcdp" | "kov":
            closed = sum((min(epoch_epsilon(law), count * per_test) for count in outcome.closed_epochs), Fraction(0))
            return round_up(closed + min(_shift(law), outcome.open_epoch * per_test))
        case _:
            assert_never(law.mode)


def require_possible(law: SparseVectorLaw, outcome: SparseVectorOutcome) -> None:
    """ParameterError for an outcome that no run of the law has."""
    field, closed = "SparseVectorOutcome.closed_epochs", outcome.closed_epochs
    if len(closed) > law.cutoff:
        raise ParameterError(field, len(closed), f"at most {law.cutoff} charged tests (the cutoff)")
    if any(count < 1 for count in closed):
        raise ParameterError(field, 0, "at least one test in each closed epoch: the charged one")
    if len(closed) == law.cutoff and outcome.open_epoch:
        raise ParameterError("SparseVectorOutcome.open_epoch", outcome.open_epoch, "0: the run halts at the cutoff")
    if outcome.halted != (len(closed) == law.cutoff):
        expected = f"true just where all {law.cutoff} charged tests (the cutoff) were made"
        raise ParameterError("SparseVectorOutcome.halted", outcome.halted, expected)
    if outcome.ratio is not None and (not law.falling or outcome.ratio < 1):
        expected = "a number of at least 1, of a law whose noise falls"
        raise ParameterError("SparseVectorOutcome.ratio", outcome.ratio, expected)
