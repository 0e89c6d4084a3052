"""Whether runs depend on each other: if they do, they are not runs of one law, and counts of them say nothing.

If the runs of a side are independent and alike, every order of what they gave is equally likely, whatever their law:
discrete, constant, with atoms. So all tests here are of the order, given what was there:

* *repeats*: a rule guesses what a run gives from the runs before it (the last one, the second last, the run at the same
  place after a worker began, the one that followed the latest equal of the last one) or from the other side. It comes
  true with the probability (how many of the guessed outcome are left) / (how many runs are left). A product of
  likelihood ratios against rules that come true more often, or less often, is a test martingale, and so is the average
  of several.
* *trends*: how many of the runs with a property (above the median, far from it, of the commonest kind) are among the
  first runs is hypergeometric.
* *pairs*: how many pairs of a left and a right run both have it is hypergeometric as well.

Looks are at the first 16, 32, ... 65,536 runs, whenever an audit stops; every test at every look has its share.

Claim: for independent runs of any two laws the answer is None with probability at least 1 - alpha, at any time.
Source: docs/proofs/audit.md 7.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["LOOKS", "SHARE", "Structured", "dependence"]

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Chosen = npt.NDArray[np.bool_]

LOOKS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)  # runs of a side
SHARE = Fraction(1, 20)  # of an audit's alpha that is spent here
LAGS = (1, 2, 3, 4, 8, 16)
STRENGTHS = (1 / 64, 1 / 8, 1 / 2, 7 / 8)  # of a rule that comes true more often than by chance, or less often
PARTS = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 3 / 4)  # of the runs, by order
MOST_COLUMNS = 8  # of numbers that are looked at, and as many labels
ODD = np.uint64(0x9E3779B97F4A7C15)


class Structured(Protocol):
    """Runs of one side by structure, as `Outcomes` has them."""

    @property
    def numbers(self) -> Mapping[str, Floats]: ...
    @property
    def labels(self) -> Mapping[str, npt.NDArray[np.object_]]: ...
    def __len__(self) -> int: ...


def dependence(
    left: Structured,
    right: Structured,
    alpha: Fraction,
    *,
    starts: Sequence[Sequence[int]] = ((), ()),
    paired: bool = False,
) -> str | None:
    """How the runs depend on each other, in words; None where nothing shows. `left`, `right`: the outcomes of the first
    runs (65,536 of a side are looked at), in the order in which they were drawn. `alpha`: what may be spent on being
    wrong. `starts`: of each side the runs with which a worker, or a batch, began (`Runs.starts`). `paired`: run i
    on the left may depend on run i on the right, so what they have in common is no evidence."""
    sides = (left, right)
    codes = _codes(left, right)
    columns = [_columns(side) for side in sides]
    fewest = min(len(left), len(right))
    share = float(alpha) / len(LOOKS)
    for look in (look for look in LOOKS if look <= fewest):
        properties = [_properties(one, look) for one in columns]
        found = list(_tests([one[:look] for one in codes], properties, starts, paired=paired))
        words, log_p = min(found, key=lambda test: test[1], default=("", 0.0))
        if log_p <= math.log(share / max(1, len(found))):
            return f"runs depend on each other: {words}"
    return None


def _tests(
    codes: Sequence[Codes],
    properties: Sequence[Mapping[str, Chosen]],
    starts: Sequence[Sequence[int]],
    *,
    paired: bool,
) -> Iterator[tuple[str, float]]:
    """Every test of a look: what it says, and the logarithm of an upper bound of its p-value."""
    for side, begun, chosen in zip(codes, starts, properties, strict=True):
        yield _repeats(
            [("they repeat runs before them", side, _earlier(side, lag)) for lag in LAGS]
            + [("they repeat from one worker, or batch, to the next", side, _since_start(side, begun))]
            + [("they go on as they did before", side, _as_before(side))]
        )
        coarse = [one.astype(np.int64) for one in chosen.values()]
        yield _repeats(
            [("a run is like the last one more often than by chance", one, _earlier(one, 1)) for one in coarse]
        )
        yield _repeats(
            [("a run is unlike the last one more often than by chance", one, _earlier(one, 1)) for one in coarse],
            more=False,
        )
        for one, part in itertools.product(chosen.values(), PARTS):
            first = math.ceil(part * len(one))
            words = f"the first {first:,} runs differ from those after them"
            yield words, _log_tail(int(one[:first].sum()), len(one), int(one.sum()), first)
    left, right = codes
    lags = (1,) if paired else (0, 1)
    yield _repeats([("one side repeats the other", right, _shifted(left, lag)) for lag in lags])
    if paired:
        return
    for name in properties[0].keys() & properties[1].keys():
        one, other = properties[0][name], properties[1][name]
        both = int((one & other).sum())
        yield "the two sides vary together", _log_tail(both, len(one), int(one.sum()), int(other.sum()))


# ---- tests ----------------------------------------------------------------------------------------------------------


def _log_tail(hits: int, runs: int, marked: int, drawn: int) -> float:
    """An upper bound of the logarithm of the two-sided tail of a hypergeometric count: `hits` of `drawn` out of `runs`
    are `marked`. Source: Hoeffding 1963, theorem 4 (with Chvatal 1979); the law is the same with the two exchanged."""
    forms = [drawn * _divergence(hits / drawn, marked / runs) if drawn else 0.0]
    forms.append(marked * _divergence(hits / marked, drawn / runs) if marked else 0.0)
    return min(0.0, math.log(2) - max(forms) * (1 - 1e-9))


def _divergence(seen: float, expected: float) -> float:
    """Of two coins, in nats."""
    if expected in (0.0, 1.0):
        return 0.0
    heads = seen * math.log(seen / expected) if seen > 0 else 0.0
    tails = (1 - seen) * math.log((1 - seen) / (1 - expected)) if seen < 1 else 0.0
    return heads + tails


def _repeats(rules: Sequence[tuple[str, Codes, Codes]], *, more: bool = True) -> tuple[str, float]:
    """The average test martingale of rules (what they say, what was there, what they guess; -1: nothing): the words of
    the best one, and minus the logarithm of the average."""
    if not rules:
        return "", 0.0
    logs = [
        [_log_wealth(chance, hit, strength, more=more) for strength in STRENGTHS] for chance, hit in map(_met, rules)
    ]
    best = max(range(len(rules)), key=lambda place: max(logs[place]))
    flat = np.array(logs).ravel()
    return rules[best][0], min(0.0, -float(np.logaddexp.reduce(flat) - math.log(flat.size)))


def _met(rule: tuple[str, Codes, Codes]) -> tuple[Floats, Chosen]:
    """Of each guess that was open: its chance given the past, and whether it came true."""
    _, codes, guesses = rule
    runs = len(codes)
    places = np.arange(runs)
    last = np.full(max(codes.max(), guesses.max()) + 1, -1)
    last[codes] = places
    guessed = np.flatnonzero((guesses >= 0) & (last[guesses] >= places))  # of the others none is left
    if not len(guessed):
        return np.zeros(0), np.zeros(0, dtype=np.bool_)
    keys = np.sort(codes * runs + places)  # by outcome, then by run
    of, before = guesses[guessed] * runs, guesses[guessed] * runs + guessed
    left = np.searchsorted(keys, of + runs) - np.searchsorted(keys, before)
    chance = left / (runs - guessed)
    is_open = (chance > 0) & (chance < 1)
    return chance[is_open], (codes[guessed] == guesses[guessed])[is_open]


def _log_wealth(chance: Floats, hit: Chosen, strength: float, *, more: bool) -> float:
    if more:
        gained = np.where(hit, np.log1p(strength * (1 - chance) / chance), math.log1p(-strength))
    else:
        gained = np.where(hit, math.log1p(-strength), np.log1p(strength * chance / (1 - chance)))
    return float(gained.sum())


# ---- rules ----------------------------------------------------------------------------------------------------------


def _earlier(codes: Codes, lag: int) -> Codes:
    """That a run gives what the run `lag` before it gave."""
    return np.concatenate([np.full(min(lag, len(codes)), -1), codes[:-lag]])


def _shifted(codes: Codes, lag: int) -> Codes:
    return _earlier(codes, lag) if lag else codes


def _as_before(codes: Codes) -> Codes:
    """That a run gives what followed when the outcome of the run before it was last there: outputs that are listed
    again, noise from a list that is used again, whatever its length."""
    guesses = np.full(len(codes), -1)
    order = np.argsort(codes, kind="stable")
    again = np.flatnonzero(codes[order[1:]] == codes[order[:-1]])
    earlier, later = order[again], order[again + 1]
    has_next = later + 1 < len(codes)
    guesses[later[has_next] + 1] = codes[earlier[has_next] + 1]
    return guesses


def _since_start(codes: Codes, starts: Sequence[int]) -> Codes:
    """That a run gives what the run at the same place gave after the start before the last one."""
    guesses = np.full(len(codes), -1)
    begun = sorted({start for start in starts if start < len(codes)})
    for (before, start), stop in zip(itertools.pairwise(begun), [*begun[2:], len(codes)], strict=False):
        size = min(start - before, stop - start)
        guesses[start : start + size] = codes[before : before + size]
    return guesses


# ---- what was there -------------------------------------------------------------------------------------------------


def _codes(left: Structured, right: Structured) -> list[Codes]:
    """A whole number for each outcome, the same for the same outcome of either side."""
    known: dict[str, int] = {}
    hashed = [_hashed(side, known) for side in (left, right)]
    _, codes = np.unique(np.concatenate(hashed), return_inverse=True)
    return [codes[: len(hashed[0])].astype(np.int64), codes[len(hashed[0]) :].astype(np.int64)]


def _hashed(side: Structured, known: dict[str, int]) -> npt.NDArray[np.uint64]:
    """Outcomes that fall on one number by chance are taken for one: any function of an outcome may be tested."""
    runs = min(len(side), LOOKS[-1])
    found = np.zeros(runs, dtype=np.uint64)
    if not runs:
        return found
    for path in sorted(side.numbers):
        bits = np.ascontiguousarray(side.numbers[path][:runs]).view(np.uint64).reshape(runs, -1)
        weights = ODD * np.arange(1, 2 * bits.shape[1], 2, dtype=np.uint64)
        mixed = (bits ^ (bits >> np.uint64(29))) * ODD
        found = found * ODD + ((mixed ^ (mixed >> np.uint64(32))) * weights).sum(axis=1, dtype=np.uint64)
    for path in sorted(side.labels):
        codes = [known.setdefault(str(label), len(known) + 1) for label in side.labels[path][:runs]]
        found = found * ODD + np.array(codes, dtype=np.uint64)
    return found


def _columns(side: Structured) -> dict[str, npt.NDArray[np.generic]]:
    """What is looked at by itself: sums and first entries of numbers, and labels."""
    runs = min(len(side), LOOKS[-1])
    found: dict[str, npt.NDArray[np.generic]] = {}
    for path, numbers in itertools.islice(sorted(side.numbers.items()), MOST_COLUMNS):
        with np.errstate(over="ignore", invalid="ignore"):
            found[f"sum of {path}"] = numbers[:runs].sum(axis=1)
        if numbers.shape[1] > 1:
            found[path] = numbers[:runs, 0]
    for path, labels in itertools.islice(sorted(side.labels.items()), MOST_COLUMNS):
        found[f"label of {path}"] = labels[:runs].astype(str)
    return found


def _properties(columns: Mapping[str, npt.NDArray[np.generic]], look: int) -> dict[str, Chosen]:
    """Properties of the first runs, by name: functions of what was there, not of its order."""
    found: dict[str, Chosen] = {}
    for name, column in columns.items():
        seen = column[:look]
        values, counts = np.unique(seen, return_counts=True)
        found[f"commonest {name}"] = seen == values[counts.argmax()]
        if seen.dtype.kind != "f":
            continue
        finite = np.isfinite(seen)
        found[f"finite {name}"] = finite
        if finite.any():
            middle = np.median(seen[finite])
            apart = np.abs(np.where(finite, seen - middle, 0.0))
            found[f"above the median {name}"] = finite & (seen > middle)
            found[f"far from the median {name}"] = finite & (apart > np.median(apart[finite]))
    return {name: one for name, one in found.items() if one.any() and not one.all()}
