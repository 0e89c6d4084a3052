"""The six questions, asked of any set-up that `set_ups` describes. Nothing here knows a library.

A step is asked twice with the same seed and other rows: the noise cancels, and what is left is what the rows moved. It
is asked with other seeds and the same rows: what is left is noise. So no set-up has to switch its noise off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np
from scipy import stats

from dpledger.audit.training.probes.result import Answer, ProbeFinding, ProbeReport
from dpledger.audit.training.probes.set_ups import CannotTell, Gradient, Positions, SetUp

__all__ = ["probe"]

_LEVEL = 1e-6  # of each statistical test
_FAR = 6.0  # standard deviations: a normal is further with chance 2e-9
_SLACK = 1e-3  # of floats of 24 bits: clipped sums of thousands of rows
_NUMBERS = 3_000  # of noise: 10 % too little are seen nearly always, 6 % with a chance of one half
_FEWEST_DRAWS = 64
_BATCHES = 1_500
_SIZES = 64  # how many rows fewer are tried: a divisor that follows the rows moves within a batch's size
_EXPLODED = 0.9  # of the clip norm: a row that moves less was not cut

Answered = tuple[Answer, str, Mapping[str, float]]


def probe(set_up: SetUp) -> ProbeReport:
    """Ask all six questions of `set_up`.

    Claim: none of privacy. "no" names a fault that was seen; "yes" that the question's own experiment saw none.
    Correct set-ups get "no" with a chance of at most 1e-5, over their seeds."""
    asked: dict[str, Callable[[SetUp], Answered]] = {
        "clipping": _clipping,
        "noise": _noise,
        "divisor": _divisor,
        "sampler": _sampler,
        "accountant": _accountant,
        "ranks": _ranks,
    }
    return ProbeReport(findings=tuple(_asked(name, question, set_up) for name, question in asked.items()))


def _asked(name: str, question: Callable[[SetUp], Answered], set_up: SetUp) -> ProbeFinding:
    try:
        with np.errstate(all="ignore"):  # what is not finite is answered by name
            answer, evidence, numbers = question(set_up)
    except CannotTell as why:
        answer, evidence, numbers = "cannot tell", str(why), {}
    return ProbeFinding(name=name, answer=answer, evidence=evidence, numbers=numbers)


# ---- what a step does -----------------------------------------------------------------------------------------------


def _clipping(set_up: SetUp) -> Answered:
    _require_repeats(set_up)
    company, unit = _company(set_up), set_up.charged.divisor / set_up.charged.clip_norm
    apart, own = _company_changes(set_up)
    farthest = max(float(np.linalg.norm(_moved(set_up, company, *two))) * unit for two in _swaps(set_up))
    added = _added(set_up, company, _pair(set_up)) * unit
    numbers = {"one_row_in_clip_norms": added, "two_rows_in_clip_norms": farthest, "changed_by_company": apart}
    if farthest > 2 + _SLACK or added > 1 + _SLACK:
        most, words = (
            (added, "one exploding row moves") if added > 1 + _SLACK else (farthest / 2, "exploding rows move")
        )
        return "no", f"{words} the sum by {most:.3g} clip norms", numbers
    if apart > _SLACK * max(1.0, own):
        words = "clipping is not per example: an exploding row in the batch changes what another row adds, by"
        return "no", f"{words} {apart:.3g} clip norms", numbers
    if max(farthest, added) < _EXPLODED:
        words = "the rows that should explode move the sum by"
        raise CannotTell(f"{words} {max(farthest, added):.3g} clip norms only, so nothing was cut: give larger ones")
    return "yes", f"an exploding row moves the sum by {added:.3g} clip norms, and changes no other row's part", numbers


def _noise(set_up: SetUp) -> Answered:
    one, batch = set_up.charged, _company(set_up)
    first = _step(set_up, batch, 0)
    draws = max(_FEWEST_DRAWS, math.ceil(_NUMBERS / max(1, len(first))))
    drawn = np.stack([first, *(_step(set_up, batch, seed) for seed in range(1, draws))])
    spread = (drawn - drawn.mean(axis=0)) * (one.divisor / one.clip_norm)
    squares = np.square(spread).sum(axis=0)
    seen = math.sqrt(float(squares.sum()) / (spread.shape[1] * (draws - 1)))
    least = float(np.sqrt(squares / (draws - 1)).min())
    numbers = {"noise_multiplier": seen, "charged": one.noise_multiplier, "least_coordinate": least, "draws": draws}
    words = f"{seen:.3g} clip norms of noise over the divisor, where {one.noise_multiplier:.3g} are charged"
    if seen < one.noise_multiplier * _least_ratio(spread.shape[1] * (draws - 1), 1):
        return "no", words, numbers
    if least < one.noise_multiplier * _least_ratio(draws - 1, spread.shape[1]):
        return "no", f"one coordinate gets {least:.3g} clip norms of noise only: {words}", numbers
    if len(np.unique(drawn, axis=0)) < draws:
        return "no", f"the same noise came twice in {draws} steps", numbers
    return "yes", f"{words} ({draws} steps)", numbers


def _least_ratio(degrees: int, tests: int) -> float:
    """Below this share of the true deviation a sample's is with chance `_LEVEL` in one of `tests`; chi-squared."""
    return math.sqrt(float(stats.chi2.ppf(_LEVEL / tests, degrees)) / degrees) * (1 - _SLACK)


def _divisor(set_up: SetUp) -> Answered:
    _require_repeats(set_up)
    size = len(_company(set_up)) + 1
    tolerance = min(0.01, 0.2 / size)
    noise = _noise_scale(set_up, size)
    of_sizes = {rows: noise / _noise_scale(set_up, rows) for rows in (size + 1, 2 * size)}
    summed = _sum_scale(set_up, size)
    of_sizes_summed = {rows: summed / _sum_scale(set_up, rows) for rows in (size + 1, 2 * size)}
    numbers = {"rows": float(size), "noise_ratio": of_sizes[size + 1], "sum_ratio": of_sizes_summed[size + 1]}
    apart, own = _company_changes(set_up)
    for part, ratios in (("noise", of_sizes), ("the sum", of_sizes_summed)):
        for rows, ratio in ratios.items():
            if abs(ratio - 1) > tolerance:
                if part == "the sum" and apart > _SLACK * max(1.0, own):
                    raise CannotTell("what a row adds changes with the rest of the batch: see clipping")
                words = f"{part} is divided by a number that is {ratio:.4g} times as large for a batch of {rows} rows"
                return "no", f"{words} as for one of {size}", numbers
    if set_up.shares_rows:
        return "yes", "the same for batches of all sizes; neighbours share the number of rows", numbers
    before, fewer = noise, set_up
    for rows in range(set_up.rows - 1, max(set_up.rows - 1 - min(_SIZES, 2 * size), 7), -1):
        fewer = set_up.of_rows(rows)
        now = _noise_scale(fewer, size)
        if abs(before / now - 1) > tolerance:
            words = f"the divisor follows the number of rows: {before / now:.6g} times as large for {rows} rows as for"
            return (
                "no",
                f"{words} {rows + 1}, where noise has another deviation",
                {**numbers, "rows_ratio": before / now},
            )
        if not math.isclose(fewer.charged.rate, set_up.charged.rate, rel_tol=1e-9):
            words = f"a row is drawn at {fewer.charged.rate:.6g} among {rows} rows, and at {set_up.charged.rate:.6g}"
            return "no", f"the rate follows the number of rows: {words} among {set_up.rows}", numbers
    return "yes", f"the same for batches of all sizes, and for {set_up.rows} rows and fewer", numbers


# ---- who is drawn, and what is counted ------------------------------------------------------------------------------


def _sampler(set_up: SetUp) -> Answered:
    rate, rows = set_up.charged.rate, set_up.rows
    batches = set_up.batches(_BATCHES, 1)
    if any(len(np.unique(batch)) < len(batch) for batch in batches):
        return "no", "a row is drawn twice in one batch: with replacement", {}
    sizes = np.array([len(batch) for batch in batches], dtype=np.float64)
    drawn = np.zeros((len(batches), rows), dtype=bool)
    for index, batch in enumerate(batches):
        drawn[index, batch] = True
    counts = drawn.sum(axis=0)
    seen, most = float(drawn.mean()), float(counts.max() / len(batches))
    expected = rows * seen * (1 - seen)
    dispersion = float(sizes.var(ddof=1) / expected) if expected else math.nan
    numbers = {"rate": seen, "charged": rate, "largest_rate_of_a_row": most, "dispersion": dispersion}
    if len(np.unique(sizes)) <= 2 and rate < 1:
        words = f"batches have {' or '.join(f'{size:.0f}' for size in np.unique(sizes))} rows, never another number"
        left = (counts < counts.max() - 1).any() and "; some rows are left out of a pass (drop_last)"
        return "no", f"{words}: they are shuffled, not drawn row by row{left or ''}", numbers
    if stats.binom.sf(counts.sum() - 1, rows * len(batches), rate) < _LEVEL:
        return "no", f"rows are drawn at {seen:.3g}, and {rate:.3g} is charged", numbers
    if stats.binom.sf(counts.max() - 1, len(batches), rate) < _LEVEL / rows:
        return "no", f"one row is drawn at {most:.3g}, and {rate:.3g} is charged: rows have weights", numbers
    if rate < 1 and abs(dispersion - 1) > _FAR * math.sqrt((2 + 1 / expected) / len(batches)):
        words = f"the sizes of batches vary {dispersion:.3g} times as much as those of rows drawn one by one"
        return "no", words, numbers
    again, spread = _again(drawn, seen)
    if rate < 1 and abs(again) > _FAR * spread:
        words = "more" if again > 0 else "less"
        return "no", f"a row is in a batch {words} often if it was in the one before", {**numbers, "again": again}
    return "yes", f"rows are drawn at {seen:.3g} ({rate:.3g} is charged), one by one: {len(batches)} batches", numbers


def _again(drawn: np.ndarray, rate: float) -> tuple[float, float]:
    """How much more often a row is in two batches in a row than by chance, and the deviation of that by chance."""
    both = float((drawn[1:] & drawn[:-1]).mean()) - rate**2
    pairs = (len(drawn) - 1) * drawn.shape[1]
    return both, math.sqrt((rate**2 + 2 * rate**3) / pairs)


def _accountant(set_up: SetUp) -> Answered:
    course = set_up.course()
    updates, counted = course.counted[-1]
    numbers = {"updates": float(updates), "counted": float(counted)}
    wrong = [pair for pair in course.counted if pair[0] != pair[1]]
    if wrong:
        made, known = wrong[0]
        return "no", f"after {made} updates the accountant has counted {known} steps", numbers
    return "yes", f"{updates} updates, {counted} steps counted, one by one", numbers


def _ranks(set_up: SetUp) -> Answered:
    noises = [_finite(noise) for noise in set_up.ranks()]
    if not any(np.any(noise) for noise in noises):
        return "no", "no rank draws noise", {}
    closest = 0.0
    for left, right in combinations(noises, 2):
        size = float(np.linalg.norm(left) * np.linalg.norm(right))
        if size:
            closest = max(closest, abs(float(left @ right)) / size)
    numbers = {"correlation": closest, "ranks": float(len(noises))}
    if closest * math.sqrt(len(noises[0])) > _FAR:
        return "no", f"two ranks draw noise of correlation {closest:.3g}: it cancels in a difference", numbers
    return "yes", f"the noise of {len(noises)} ranks has correlation {closest:.2g} at most", numbers


# ---- measures -------------------------------------------------------------------------------------------------------


def _step(set_up: SetUp, batch: Positions, seed: int) -> Gradient:
    return _finite(set_up.step(batch, seed))


def _finite(gradient: Gradient) -> Gradient:
    if not gradient.size or not np.isfinite(gradient).all():
        what = "is not finite" if gradient.size else "has no numbers"
        raise CannotTell(f"the noisy gradient of made-up rows {what}: nothing can be measured")
    return gradient


def _pair(set_up: SetUp) -> tuple[int, int]:
    if len(set_up.exploding) < 2:
        raise CannotTell("there are not two made-up rows with gradients beyond the clip norm")
    return set_up.exploding[0], set_up.exploding[1]


def _quiet(set_up: SetUp) -> list[int]:
    found = [row for row in range(set_up.rows) if row not in set_up.exploding]
    if not found:
        raise CannotTell("all made-up rows explode: give ordinary ones, too")
    return found


def _company(set_up: SetUp, size: int | None = None) -> Positions:
    """Ordinary rows, over and over: one fewer than the divisor, so that a batch of one more has its size."""
    wanted = max(2, round(set_up.charged.divisor)) - 1 if size is None else size
    return np.resize(np.array(_quiet(set_up), dtype=np.int64), wanted)


def _swaps(set_up: SetUp) -> list[tuple[int, int]]:
    (first, second), quiet = _pair(set_up), _quiet(set_up)[0]
    return [(first, second), (first, quiet), (second, quiet)]


def _moved(set_up: SetUp, company: Positions, one: int, other: int) -> Gradient:
    """What the step changes by when a row of the batch is another one. The noise, of one seed, cancels."""
    return _step(set_up, np.append(company, one), 0) - _step(set_up, np.append(company, other), 0)


def _company_changes(set_up: SetUp) -> tuple[float, float]:
    """By how much what an ordinary row adds changes when another row of the batch explodes, and how much it adds: both
    in clip norms, against another ordinary row."""
    quiet, unit = _quiet(set_up), set_up.charged.divisor / set_up.charged.clip_norm
    company, crowd, other = _company(set_up), _company(set_up), quiet[1] if len(quiet) > 1 else _pair(set_up)[1]
    crowd[-1] = _pair(set_up)[0]
    alone = _moved(set_up, company, quiet[0], other) * unit
    crowded = _moved(set_up, crowd, quiet[0], other) * unit
    return float(np.linalg.norm(alone - crowded)), float(np.linalg.norm(alone))


def _added(set_up: SetUp, company: Positions, rows: tuple[int, int]) -> float:
    """By how much the step moves, at most, where a row is added; of a divisor that moves with it, half the replaced."""
    size = len(company) + 1
    if abs(_sum_scale(set_up, size) / _sum_scale(set_up, size + 1) - 1) > min(0.01, 0.2 / size):
        return max(float(np.linalg.norm(_moved(set_up, company, *two))) for two in _swaps(set_up)) / 2
    noise = _noise_scale(set_up, size - 1) / _noise_scale(set_up, size) if size > 1 else 1.0
    without = _step(set_up, company, 0)
    return max(float(np.linalg.norm(_step(set_up, np.append(company, row), 0) * noise - without)) for row in rows)


def _noise_scale(set_up: SetUp, rows: int) -> float:
    """The distance of two steps on the same rows: what noise is divided by, up to a factor of all sizes."""
    batch = _company(set_up, rows)
    found = float(np.linalg.norm(_step(set_up, batch, 1) - _step(set_up, batch, 2)))
    if not 0 < found < math.inf:
        raise CannotTell(f"two steps with other seeds differ by {found}: no noise follows from the seed")
    return found


def _sum_scale(set_up: SetUp, rows: int) -> float:
    """The distance of two steps where one row of so many is another: what sums are divided by, up to a factor."""
    company = _company(set_up, rows - 1)
    found = max(float(np.linalg.norm(_moved(set_up, company, *two))) for two in _swaps(set_up))
    if not 0 < found < math.inf:
        raise CannotTell(f"another row in the batch moves the step by {found}: give rows with other gradients")
    return found


def _require_repeats(set_up: SetUp) -> None:
    batch = _company(set_up)
    if not np.array_equal(_step(set_up, batch, 0), _step(set_up, batch, 0)):
        raise CannotTell("the same rows and the same seed give another step: noise does not follow from the seed")
