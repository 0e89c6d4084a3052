"""What a sparse vector costs: whether its scales keep its claim, and what a published pattern of answers reveals."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

from dpledger.accounting.leaves import SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.sparse_vectors.pure_steps import few_charges, kov_delta
from dpledger.decimals import add, round_up
from dpledger.errors import ClaimTooSmall, ParameterError

__all__ = ["certify", "epoch_epsilon", "ex_post_epsilon", "require_possible", "target_delta"]


def epoch_epsilon(law: SparseVectorLaw) -> Fraction:
    """The pure epsilon of one epoch, 1/threshold_scale + 2/query_scale; in target_charging of one test, 1/query_scale.

    Claim: one epoch is result-DP for adaptively chosen queries. Source: docs/proofs/sparse_vector.md, "One epoch".
    """
    per_query = 1 / Fraction(law.query_scale)
    return per_query if law.mode == "target_charging" else _shift(law) + 2 * per_query


def _shift(law: SparseVectorLaw) -> Fraction:
    """What moving the threshold by the sensitivity costs."""
    return 1 / Fraction(law.threshold_scale)


@lru_cache(maxsize=1024)
def certify(law: SparseVectorLaw) -> None:
    """Checks that the law's scales keep its (epsilon, delta), by the composition that its mode names.

    Raises ParameterError for scales that the mode cannot have, ClaimTooSmall if they give more than is claimed.
    Source: docs/proofs/sparse_vector.md, "A whole run".
    """
    _require_shape(law)
    match law.mode:
        case "single_threshold":
            _require_epsilon(law, _shift(law) + law.cutoff * 2 / Fraction(law.query_scale))
        case "basic":
            _require_epsilon(law, law.cutoff * epoch_epsilon(law))
        case "dr14" | "zcdp" | "kov":
            _require_delta(law, kov_delta(law.epsilon, epoch_epsilon(law), law.cutoff))
        case "target_charging":
            _require_delta(law, target_delta(law.epsilon, epoch_epsilon(law), law.cutoff, law.calls or 0))
        case _:
            assert_never(law.mode)


def _require_shape(law: SparseVectorLaw) -> None:
    charging = law.mode == "target_charging"
    if charging == bool(law.threshold_scale):
        wanted = "0 (target_charging draws no threshold noise)" if charging else "a number above 0"
        raise ParameterError("SparseVectorLaw.threshold_scale", law.threshold_scale, wanted)
    if charging and (law.calls is None or law.calls < law.cutoff):
        raise ParameterError("SparseVectorLaw.calls", law.calls, "at least the cutoff in mode target_charging")
    if not charging and law.calls is not None:
        raise ParameterError("SparseVectorLaw.calls", law.calls, "nothing (only mode target_charging counts calls)")


def _require_epsilon(law: SparseVectorLaw, epsilon: Fraction) -> None:
    if epsilon > Fraction(law.epsilon):
        raise ClaimTooSmall(f"sparse_vector claims epsilon {law.epsilon}, its scales give {round_up(epsilon)}")


def _require_delta(law: SparseVectorLaw, delta: Decimal) -> None:
    if delta > law.delta:
        raise ClaimTooSmall(
            f"sparse_vector claims delta {law.delta} at epsilon {law.epsilon}, its scales give {round_up(delta)}"
        )


def target_delta(epsilon: Decimal, step_epsilon: Fraction, cutoff: int, calls: int) -> Decimal:
    """kov_delta of `calls` tests, plus the chance that a run needs more of them.

    Claim: a target-charging run is (epsilon, result)-DP. Source: Cohen-Lyu 2023; docs/proofs/sparse_vector.md.
    """
    return add(kov_delta(epsilon, step_epsilon, calls), few_charges(cutoff, step_epsilon, calls))


def ex_post_epsilon(law: SparseVectorLaw, outcome: SparseVectorOutcome) -> Decimal:
    """What the published pattern of passes and fails reveals, rounded up; never above the cap by more than the law's
    composition saved (the caller takes the smaller).

    Claim: |log P(pattern)/P'(pattern)| <= result for every pair of neighbours, for the tests that were asked.
    Source: docs/proofs/sparse_vector.md, "Ex-post loss". Raises ParameterError for an outcome that the law cannot have.
    """
    require_possible(law, outcome)
    per_test = 1 / Fraction(law.query_scale)
    tests = outcome.tests
    match law.mode:
        case "target_charging":
            return round_up(tests * per_test)
        case "single_threshold":
            return round_up(min(_shift(law) + 2 * len(outcome.closed_epochs) * per_test, tests * per_test))
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
