"""The true losses of what the zoo has from papers: noise, chains, coins, choices, thresholds; and outcome by outcome of
those that claim a realised loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from choice_oracle import probabilities
from dpledger.audit.zoo import Case
from dpledger.mechanisms.noise import ExponentialWeights, PermuteAndFlipChoice
from zoo_laws import LINE, Floats, Oracle, finite, gaussian, laplace, on_a_line, shifted
from zoo_oracle import accurate_losses, by_round, coin_law, comparison_losses, doubling_law, kept, rare_law, worst
from zoo_written import halting

__all__ = ["PUBLISHED", "STRATA"]

Chances = Mapping[Any, float]


# ---- noise and chains -----------------------------------------------------------------------------------------------


def leaky(shown: Any, number: float) -> tuple[Mapping[Hashable, float], Floats]:
    leak = float(shown.leak)
    return {number: leak}, (1 - leak) * laplace(LINE - number, float(shown.scale))


def unchecked(shown: Any, numbers: Any) -> tuple[Hashable, list[tuple[float, Any]]]:
    lost = any(x != x for x in numbers)
    return lost, [] if lost else [(sum(numbers) / len(numbers), shown.scale)]


def coarsened(shown: Case) -> float:
    """The convolution of two Laplace laws in closed form, beside the finer one alone; far out too, where the loss of a
    level with too little noise comes to its supremum."""
    finer, keep, added = (float(getattr(shown.mechanism, name)) for name in ("finer", "keep", "added"))
    points = np.concatenate([np.linspace(-50, 50, 10_001), [-1e7, 1e7]])

    def log_density(z: Floats) -> Floats:
        size = np.abs(z)
        own = np.exp(size / added - size / finer)  # over e^(-size/added)
        if finer == added:
            both = (1 + size / added) / (4 * added)
        else:
            both = (finer * own - added) / (2 * (finer**2 - added**2))
        found: Floats = np.log(keep * own / (2 * finer) + (1 - keep) * both) - size / added
        return found

    left, right = (log_density(points - side) for side in (shown.left, shown.right))
    return float(np.abs(left - right).max())


# ---- coins and choices ----------------------------------------------------------------------------------------------


def coins(shown: Any) -> list[tuple[float, float]]:
    first = float(shown.first) if hasattr(shown, "first") else None
    return list(coin_law((float(shown.cheap), float(shown.dear)), first).values())


def of_pairs(pairs: Callable[[Any], list[tuple[float, float]]]) -> Oracle:
    """By enumeration of both sides at once, True on the left."""

    def law(shown: Any, side: Any) -> Chances:
        return {place: p if side else q for place, (p, q) in enumerate(pairs(shown))}

    return finite(law)


def revealed(shown: Any, bit: Any) -> Chances:
    silent = (1 - float(shown.delta)) ** shown.runs
    return {"silent": silent, bit: 1 - silent}


def best_of(shown: Any) -> list[tuple[float, float]]:
    missed = (1 - kept(float(shown.epsilon))) ** shown.runs
    return [(1 - missed, missed), (missed, 1 - missed)]


def weighted(shown: Any, scores: Any) -> Chances:
    return dict(enumerate(probabilities(ExponentialWeights(shown.exponent), list(map(int, scores)))))


def occurring(shown: Any, counts: Any) -> Chances:
    places = [place for place, count in enumerate(counts) if count]
    return dict(zip(places, weighted(shown, [counts[place] for place in places]).values(), strict=True))


def flipped(shown: Any, scores: Any) -> Chances:
    return dict(enumerate(probabilities(PermuteAndFlipChoice(shown.exponent), list(map(int, scores)))))


def one_of_many(shown: Any, answer: Any) -> Chances:
    keep = float(shown.kept)
    return {other: keep if other == answer else (1 - keep) / (shown.answers - 1) for other in range(shown.answers)}


def bit_kept(shown: Any, bit: Any) -> Chances:
    return {bit: float(shown.keep), not bit: 1 - float(shown.keep)}


_FAMILIES: Mapping[Oracle, str] = {
    shifted(lambda shown, x: (None, [(x, shown.scale)])): "laplace laplace_half_noise",
    on_a_line(leaky): "report_raw_value",
    coarsened: "laplace_chain laplace_chain_kept_too_often laplace_chain_kept_else laplace_chain_smaller_noise",
    shifted(lambda shown, x: (None, [(x, shown.scale), (x, shown.finer)])): "laplace_noise_by_l2 laplace_levels_fresh",
    shifted(lambda shown, x: (x, [(x, shown.scale)])): "laplace_levels_rescaled laplace_noise_reused",
    gaussian(lambda shown: float(shown.sigma) ** -2): "gaussian gaussian_half_noise",
    gaussian(lambda shown: (4 / 7 + 2 / 3 + 4 / 5 + 1) * float(shown.sigma) ** -2): "gaussian_levels_fresh",
    gaussian(lambda shown: (0.5 + 0.25 / float(shown.bridge)) * float(shown.sigma) ** -2): (
        "brownian_levels brownian_levels_narrow_bridge"
    ),
    shifted(lambda shown, x: (x, [])): "brownian_levels_rescaled",  # twice the second less the first
    shifted(unchecked): "nan_on_one_record",
    shifted(lambda shown, x: (None, [(0, x)])): "scale_depends_on_data",
    finite(lambda shown, queries: halting(shown, queries, 1, redrawn=False)): (
        "sparse_vector sparse_vector_no_threshold_noise above_threshold above_threshold_half_query_noise "
        "above_threshold_half_sensitivity above_threshold_least_noise above_threshold_swapped "
        "above_threshold_no_query_noise above_threshold_exact_test"
    ),
    finite(lambda shown, queries: halting(shown, queries, shown.halts, redrawn=False)): "above_threshold_kept",
    finite(bit_kept): "randomized_response",
    of_pairs(coins): "coin_that_came_up_cheap budget_tested_after_the_outcome",
    of_pairs(best_of): "best_of_hidden_runs",
    of_pairs(lambda shown: rare_law(shown.steps, float(shown.gain), float(shown.fall))): "realised_losses_squared",
    finite(revealed): "delta_counted_once",
    finite(weighted): "exponential_mechanism exponential_mechanism_undivided",
    finite(occurring): "exponential_mechanism_of_what_occurs",
    finite(flipped): "permute_and_flip permute_and_flip_half_noise",
    finite(one_of_many): "randomized_response_of_a_bit_for_five",
}

PUBLISHED: Mapping[str, Oracle] = {name: oracle for oracle, names in _FAMILIES.items() for name in names.split()}
"""By name."""


# ---- outcome by outcome ---------------------------------------------------------------------------------------------


def by_coin(shown: Any) -> dict[int, float]:
    law = coin_law((float(shown.mechanism.cheap), float(shown.mechanism.dear)))
    return {which: worst(pair for (coin, *_), pair in law.items() if coin == which) for which in (0, 1)}


def by_draw(shown: Any) -> dict[int, float]:
    """What the answers lose; that the bit itself is shown is the delta of all strata together."""
    return {draw: worst([(kept(loss), 1 - kept(loss))]) for draw, loss in enumerate(_drawn(shown))}


def _drawn(shown: Any) -> list[float]:
    return [float(shown.mechanism.least) * (draw + 1) for draw in range(shown.mechanism.draws)]


def by_halt(shown: Any) -> dict[int, float]:
    """By the place of the first query above, from 0; the last is that of none."""
    laws = [halting(shown.mechanism, side, 1, redrawn=False) for side in (shown.left, shown.right)]
    return {len(text.rstrip("0")): worst([(laws[0][text], laws[1][text])]) for text in laws[0]}


def by_comparison(shown: Any) -> dict[int, float]:
    scales = float(shown.mechanism.threshold_scale), float(shown.mechanism.query_scale)
    return comparison_losses(*scales, shown.left, shown.right)


def by_doubling(shown: Any) -> dict[int, float]:
    given = shown.mechanism
    if given.check_noise == 0:  # on one side a check without noise rejects what it accepts on the other
        assert (shown.left[1] < 0) != (shown.right[1] < 0)
        return dict.fromkeys(range(1, given.rounds + 2), math.inf)
    return by_round(doubling_law(float(given.first), given.rounds, float(given.check)))


def by_accuracy(shown: Any) -> dict[int, float]:
    given = shown.mechanism
    if given.check_noise == 0:  # a level between both excess risks passes on one side alone
        excess = [1.25 / 2 * (-0.8 - sum(side) / len(side) / 1.25) ** 2 for side in (shown.left, shown.right)]
        assert excess[0] > 1.5 > excess[1]
        return dict.fromkeys((1, 2, 3), math.inf)
    return accurate_losses(
        (shown.left, shown.right),
        epsilons=(float(given.coarse), float(given.fine)),
        check=float(given.check),
        chain_noise=float(given.chain_noise),
        check_noise=float(given.check_noise),
        tolerance=float(given.tolerance),
        all_shown=type(given).__name__ == "EveryLevelShown",
    )


_BY_PLACE: Mapping[Callable[[Any], dict[int, float]], str] = {
    by_coin: "published_coin published_coin_billed_too_low",
    by_draw: "delta_in_every_stratum",
    by_halt: "above_threshold_losses above_threshold_halt_billed_as_silence",
    by_comparison: "above_threshold_comparison_published",
    by_doubling: "doubling doubling_last_level_only doubling_one_check doubling_exact_check",
    by_accuracy: (
        "accuracy_first accuracy_first_half_query accuracy_first_exact_check accuracy_first_fine "
        "accuracy_first_half_statistic accuracy_first_unscaled_tolerance accuracy_first_every_level_shown"
    ),
}


def in_strata(places: Callable[[Any], dict[int, float]]) -> Callable[[Case], dict[Decimal, float]]:
    """The greatest loss of the places of each claimed loss, which is read off the claim itself."""

    def losses(shown: Case) -> dict[Decimal, float]:
        found: dict[Decimal, float] = {}
        claimed: Any = shown.claim
        for place, loss in places(shown).items():
            stratum = claimed.loss.losses[place - claimed.loss.start]
            found[stratum] = max(found.get(stratum, 0.0), loss)
        return found

    return losses


STRATA: Mapping[str, Callable[[Case], dict[Decimal, float]]] = {
    name: in_strata(places) for places, names in _BY_PLACE.items() for name in names.split()
}
"""The loss of each stratum, by name."""
