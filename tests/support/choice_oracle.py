"""The laws of a choice once more, from their definitions: probabilities in mpmath, and the winner from the same words.

Shares no code with the samplers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import mpmath as mp

from dpledger.mechanisms.noise import ExponentialWeights, PermuteAndFlipChoice, Weighted

__all__ = ["probabilities", "winner_from_words"]


def probabilities(law: Weighted, scores: Sequence[int], counts: Sequence[int] | None = None) -> list[float]:
    """P(the choice falls into segment i), by summation (exponential weights) or by enumeration: permute-and-flip walks
    through the candidates in random order and takes one with probability e^(exponent (score - best))."""
    with mp.workdps(60):
        weight = [mp.exp(mp.mpf(str(law.exponent)) * (score - max(scores))) for score in scores]
        many = counts or [1] * len(scores)
        match law:
            case ExponentialWeights():
                whole = mp.fsum(w * m for w, m in zip(weight, many, strict=True))
                return [float(w * m / whole) for w, m in zip(weight, many, strict=True)]
            case PermuteAndFlipChoice():
                owners = [segment for segment, m in enumerate(many) for _ in range(m)]
                found = [mp.mpf(0)] * len(scores)
                orders = list(itertools.permutations(range(len(owners))))
                for order in orders:
                    missed = mp.mpf(1)
                    for candidate in order:
                        w = weight[owners[candidate]]
                        found[owners[candidate]] += missed * w / len(orders)
                        missed *= 1 - w
                return [float(p) for p in found]


def winner_from_words(law: Weighted, scores: Sequence[int], counts: Sequence[int], words: Sequence[int]) -> int | None:
    """The winner of the race at 80 digits, from the middles of the words' intervals; None where the 64 bits leave it
    open."""
    with mp.workdps(80):
        ends = [
            [_key(law, max(scores) - score, count, mp.mpf(word + more) / 2**64) for more in (0, 1)]
            for score, count, word in zip(scores, counts, words, strict=True)
        ]
        ceiling = min(high for _, high in ends)
        near = [place for place, (low, _) in enumerate(ends) if low <= ceiling]
    return near[0] if len(near) == 1 else None


def _key(law: Weighted, gap: int, count: int, u: Any) -> Any:
    behind = mp.mpf(str(law.exponent)) * gap
    match law:
        case ExponentialWeights():  # the least of `count` exponential times is exponential of `count` times the rate
            time = -mp.log(1 - u) / count if u < 1 else mp.inf
        case PermuteAndFlipChoice():  # the least of `count` uniform times
            time = -mp.expm1(mp.log1p(-u) / count) if u < 1 else mp.mpf(1)
    return mp.log(time) + behind if time else -mp.inf
