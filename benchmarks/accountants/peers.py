"""The libraries, ours among them: each answers epsilon of a piece of work by an interval or by an upper bound alone.

A library that is not installed raises ImportError; one that does not do a kind of mechanism raises NotCovered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accountants.work import Part, Work
from dpledger.accounting.profile import compose

Interval = tuple[float, float]
ANY = math.inf
REFUSALS = (ValueError, RuntimeError, ArithmeticError, AssertionError, MemoryError)
"""What the libraries raise where they cannot answer."""


class NotCovered(Exception):
    """The library has no such mechanism."""


@dataclass(frozen=True)
class Peer:
    """`answer(work, truth)`: `truth` is our interval, for a library that is asked for an accuracy relative to epsilon.
    `slow`: takes seconds. Beyond `most_runs` and `most_epsilon` it is not asked: its arrays grow with them."""

    name: str
    answer: Callable[[Work, Interval], Interval]
    slow: bool = False
    most_runs: float = 1e6
    most_epsilon: float = ANY

    def reason(self, work: Work, truth: Interval) -> str:
        """Why it is not asked; empty where it is."""
        if work.runs > self.most_runs:
            return f"not asked: more than {self.most_runs:.0e} runs"
        if truth[1] > self.most_epsilon:
            return f"not asked: epsilon above {self.most_epsilon:g} needs gigabytes"
        return ""


def ours(work: Work) -> Interval:
    at = compose(work.tree()).epsilon(work.delta)
    return at.lower, at.upper


def ours_in_balls(work: Work) -> Interval:
    """Each end confirmed in ball arithmetic (the extra `arb`)."""
    import flint  # noqa: F401

    at = compose(work.tree(), verify="arb").epsilon(work.delta)
    return at.lower, at.upper


# ---- dp_accounting --------------------------------------------------------------------------------------------------


def _distribution(part: Part, grid: float, pessimistic: bool) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    how: dict[str, Any] = {"value_discretization_interval": grid, "pessimistic_estimate": pessimistic}
    if not pessimistic and part.kind != "response":
        how["use_connect_dots"] = False  # there is no optimistic form of it: said, it warns of it otherwise
    match part.kind:
        case "gaussian":
            return pld.from_gaussian_mechanism(part.size, sampling_prob=part.rate, **how)
        case "discrete_gaussian":
            return pld.from_discrete_gaussian_mechanism(part.size, sampling_prob=part.rate, **how)
        case "laplace":
            return pld.from_laplace_mechanism(1 / part.size, sampling_prob=part.rate, **how)
        case "response":
            return pld.from_randomized_response(2 / (math.exp(part.size) + 1), 2, **how)


def loss_distribution(work: Work, grid: float, *, pessimistic: bool) -> float:
    first, *others = [_distribution(p, grid, pessimistic).self_compose(p.count) for p in work.parts]
    for other in others:
        first = first.compose(other)
    return float(first.get_epsilon_for_delta(work.delta))


def _upper(grid: float) -> Callable[[Work, Interval], Interval]:
    return lambda work, _: (-math.inf, loss_distribution(work, grid, pessimistic=True))


def _both(grid: float) -> Callable[[Work, Interval], Interval]:
    return lambda work, _: (
        loss_distribution(work, grid, pessimistic=False),
        loss_distribution(work, grid, pessimistic=True),
    )


def _dp_accounting_rdp(work: Work, _: Interval) -> Interval:
    import dp_accounting
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    accountant = rdp.RdpAccountant()
    for part in work.parts:
        event = _event(dp_accounting, part)
        accountant.compose(
            event if part.rate == 1 else dp_accounting.PoissonSampledDpEvent(part.rate, event), part.count
        )
    return -math.inf, float(accountant.get_epsilon(work.delta))


def _event(library: Any, part: Part) -> Any:
    match part.kind:
        case "gaussian":
            return library.GaussianDpEvent(part.size)
        case "laplace":
            return library.LaplaceDpEvent(1 / part.size)
        case _:
            raise NotCovered(part.kind)


# ---- prv_accountant -------------------------------------------------------------------------------------------------


def _prv(error: Callable[[Interval], float]) -> Callable[[Work, Interval], Interval]:
    def answer(work: Work, truth: Interval) -> Interval:
        from prv_accountant import PRVAccountant

        counts = [part.count for part in work.parts]
        accountant = PRVAccountant(
            prvs=[_variable(part) for part in work.parts],
            max_self_compositions=counts,
            eps_error=error(truth),
            delta_error=work.delta / 1000,
        )
        lower, _, upper = accountant.compute_epsilon(delta=work.delta, num_self_compositions=counts)
        return float(lower), float(upper)

    return answer


def _variable(part: Part) -> Any:
    from prv_accountant import privacy_random_variables as variables

    if part.kind == "gaussian" and part.rate < 1:
        return variables.PoissonSubsampledGaussianMechanism(sampling_probability=part.rate, noise_multiplier=part.size)
    match part.kind:
        case "gaussian":
            return variables.GaussianMechanism(part.size)
        case "laplace":
            return variables.LaplaceMechanism(part.size)
        case "response":
            return variables.PureDPMechanism(part.size)
        case _:
            raise NotCovered(part.kind)


# ---- Opacus ---------------------------------------------------------------------------------------------------------


def _opacus(kind: str) -> Callable[[Work, Interval], Interval]:
    def answer(work: Work, _: Interval) -> Interval:
        from opacus import accountants

        if any(part.kind != "gaussian" for part in work.parts):
            raise NotCovered("anything but sampled Gaussians")
        accountant = getattr(accountants, kind)()
        accountant.history = [(part.size, part.rate, part.count) for part in work.parts]
        return -math.inf, float(accountant.get_epsilon(delta=work.delta))

    return answer


DP_ACCOUNTING = Peer("dp_accounting PLD, above", _upper(1e-4), most_runs=1e9)
PRV = Peer("prv_accountant", _prv(lambda _: 0.1), most_epsilon=100)
MATCHED = Peer("prv_accountant, 1e-3", _prv(lambda truth: 0.5e-3 * truth[1]), slow=True)
OPACUS_PRV = Peer("Opacus PRV", _opacus("PRVAccountant"), most_epsilon=100)
PEERS = (
    DP_ACCOUNTING,
    Peer("dp_accounting PLD, both", _both(1e-4), most_runs=1e9),
    Peer("dp_accounting RDP", _dp_accounting_rdp, most_runs=ANY),
    PRV,
    Peer("Opacus RDP", _opacus("RDPAccountant"), most_runs=ANY),
    OPACUS_PRV,
    Peer("dp_accounting PLD 1e-5", _both(1e-5), slow=True),
    MATCHED,
)
