"""How many records are enough for statistical queries, and for what is learned by them.

>>> query_size(10, "0.05", "0.05", epsilon=1).needed, query_size(10, "0.05", "0.05", epsilon=1, sharp=True).needed
(5348, 3295)
>>> query_size(10, "0.05", "0.05", epsilon=1, mode="split").needed
53480
>>> conjunction_size(5, "0.1", "0.05", scale=10).needed
15401
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Literal, TypeAlias, assert_never, get_args

import numpy as np

from dpledger.accounting.arithmetic import elementary, outward, scalars
from dpledger.decimals import Number, round_down, round_up, text, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.binomial_tails import tail_up_to
from dpledger.mechanisms.learning.theory.needed_units import SampleSize, ceiling, smallest
from dpledger.mechanisms.plan import above_0, open_unit
from dpledger.schema import flag, one_of

__all__ = [
    "MOST_CHAINS",
    "MOST_LITERALS",
    "MOST_QUERIES",
    "QueryMode",
    "conjunction_size",
    "literal_threshold",
    "query_size",
]

QueryMode: TypeAlias = Literal["fixed", "uniform", "split"]
"""fixed: queries chosen before the first answer; uniform: by earlier answers, but out of a family that is; split: by
earlier answers, each on records of its own."""

MOST_QUERIES = 10**6
MOST_CHAINS = 2**53 - 1
MOST_LITERALS = 10**6
MOST_SUMMED = 10**11  # records of a binomial tail
SHARES = 2000  # parts of the tolerance that are tried for the noise


def query_size(
    queries: int,
    tolerance: Number,
    beta: Number,
    *,
    epsilon: Number,
    mode: QueryMode = "fixed",
    chains: int | None = None,
    in_steps: bool = False,
    width: Number = 1,
    moved: Number | None = None,
    sharp: bool = False,
) -> SampleSize:
    """Records with which the mean answers to all queries are within `tolerance` of what is expected of a record, but
    with probability `beta`, where records are independent draws. Under replace_one: their number is public.

    `epsilon`: for all queries together. `chains`, of mode uniform: how many nested chains of indicators hold every
    query that may be asked (one of another kind is a chain by itself). `in_steps`: the noise is whole (discrete
    Laplace). `width`: of the range of a query; `moved`: how far a record moves the sum of its values; default: the
    width. `sharp`: the tolerance is shared between noise and sampling as is best, in place of half to each.

    Claim: with K queries, noise of scale b, c chains (K where there are none) and both at most half the tolerance t:
    m = max((2b/t) ln(2K/beta), (2 w^2/t^2) ln(4c/beta)); sharp: the least m with
    K exp(-m s t/b) + 2c exp(-2m((1-s)t/w)^2) <= beta for some s. Split: of each block; b counts one query.
    Source: docs/proofs/learning_queries.md, sections 2 and 3; Hoeffding 1963; Massart 1990 for chains.

    >>> dpl.planning.query_size(10, "0.05", "0.05", epsilon=1).needed
    5348
    """
    asked = whole(queries, field="queries", least=1, most=MOST_QUERIES)
    close, risk = above_0(tolerance, "tolerance"), open_unit(beta, "beta")
    range_, loss = above_0(width, "width"), above_0(epsilon, "epsilon")
    step = range_ if moved is None else above_0(moved, "moved")
    one_of(mode, get_args(QueryMode), field="mode")
    blocks, families = _blocks(mode, asked), _families(mode, asked, chains)
    with localcontext(outward.context(close, risk, range_, loss, step)):
        scale = step / loss if mode == "split" else step * asked / loss
        noise = scale * outward.ln(2 * asked / risk)
        steps = flag(in_steps, field="in_steps")
        private = math.ceil(2 * ceiling(noise) / Fraction(close)) if steps else ceiling(2 * noise / close)
        sampling = ceiling(2 * range_ * range_ / (close * close) * outward.ln(4 * families / risk))
    terms: tuple[tuple[str, int], ...] = (("noise", private * blocks), ("sampling", sampling * blocks))
    simple = max(private, sampling) * blocks
    needed, inside = simple, Decimal("0.5")
    if flag(sharp, field="sharp"):
        shared = _Shared(asked, families, close, risk, scale, range_, 1 if in_steps else 0)
        least = smallest(shared.enough, 1)
        if least * blocks < simple:
            needed, inside = least * blocks, round_up(Fraction(shared.best(least), SHARES))
            terms = (("noise and sampling", needed),)
    return SampleSize(
        needed=needed,
        chosen=needed,
        terms=terms,
        status="proved",
        target=f"answers to {asked:,} queries within {text(close)}, but with probability {text(risk)}",
        bound=f"statistical queries, {mode}",
        units="records",
        others=(("half the tolerance each", simple),) if needed < simple else (),
        inside=(("part of the tolerance for noise", inside),),
    )


class _Shared:
    """K exp(-(m s t - e)/b) + 2c exp(-2m((1-s)t/w)^2) <= beta for some s; `loose`: e, 1 where noise is whole."""

    def __init__(
        self, asked: int, families: int, close: Decimal, risk: Decimal, scale: Decimal, width: Decimal, loose: int
    ) -> None:
        self._asked, self._families, self._close = asked, families, close
        self._risk, self._scale, self._width, self._loose = risk, scale, width, loose

    def best(self, m: int) -> int:
        """The s, in 2000ths, that is best as far as floats show."""
        s = np.arange(1, SHARES) / SHARES
        close, scale = float(self._close), float(self._scale)
        noise = scalars.log(float(self._asked)) - (m * s * close - self._loose) / scale
        rest = (1 - s) * (close / float(self._width))
        sampling = scalars.log(2.0 * float(self._families)) - 2 * m * rest * rest
        return int(np.argmin(elementary.logaddexp(noise, sampling))) + 1

    def enough(self, m: int) -> bool:
        with localcontext(outward.context(self._close, self._risk, self._scale, self._width)):
            s = Decimal(self.best(m)) / SHARES
            noise = self._asked * outward.exp(-(m * s * self._close - self._loose) / self._scale)
            rest = (1 - s) * self._close / self._width
            return (noise + 2 * self._families * outward.exp(-2 * m * rest * rest)) * (1 + outward.MARGIN) <= self._risk


def literal_threshold(variables: int, beta: Number, *, scale: Number) -> int:
    """How many positive examples may seem to falsify a literal that is kept, with discrete Laplace noise of `scale`.

    Claim: the least whole T >= scale ln(4d/beta), so that with probability 1 - beta/2 no noise of 2d is beyond T.
    Source: docs/proofs/learning_queries.md, section 4."""
    count = whole(variables, field="variables", least=1, most=MOST_LITERALS)
    risk, wide = open_unit(beta, "beta"), above_0(scale, "scale")
    with localcontext(outward.context(risk, wide)):
        return ceiling(wide * outward.ln(4 * count / risk))


def conjunction_size(variables: int, alpha: Number, beta: Number, *, scale: Number) -> SampleSize:
    """Records with which a conjunction that keeps the literals below the threshold errs on at most alpha, but with
    probability beta, where some conjunction fits. `scale`: of the noise, the l1 sensitivity by epsilon.

    Claim: the least m with 2d P(Bin(m, alpha/(2d)) <= 2T) <= beta/2; closed form: (2d/alpha) max(8 ln(4d/beta), 4T);
    query by query: 2d statistical queries within alpha/(4d).
    Source: docs/proofs/learning_queries.md, section 4; Kearns 1998."""
    count = whole(variables, field="variables", least=1, most=MOST_LITERALS)
    target, risk, wide = open_unit(alpha, "alpha"), open_unit(beta, "beta"), above_0(scale, "scale")
    kept = 2 * literal_threshold(count, risk, scale=wide)
    chance = round_down(Fraction(target) / (2 * count), digits=20)
    with localcontext(outward.context(target, risk, wide)):
        logarithm = outward.ln(4 * count / risk)
        closed = ceiling(2 * count / target * max(8 * logarithm, Decimal(2 * kept)))
        allowed = risk / (4 * count)
        tolerance = target / (4 * count)
        one_by_one = max(
            ceiling(2 * wide * logarithm / tolerance),
            ceiling(2 / (tolerance * tolerance) * outward.ln(8 * count / risk)),
        )
    needed = closed  # far beyond every dataset its tails are not summed
    if closed <= MOST_SUMMED:
        needed = smallest(lambda m: tail_up_to(m, chance, kept) <= allowed, kept + 1)
    return SampleSize(
        needed=needed,
        chosen=needed,
        terms=(("kept literals", needed),),
        status="proved",
        target=f"an error of at most {text(target)}, but with probability {text(risk)}, where a conjunction fits",
        bound="conjunction of the literals below a threshold",
        units="records",
        others=(("closed form", closed), ("query by query", one_by_one)),
        inside=(("threshold", Decimal(kept // 2)),),
    )


def _blocks(mode: QueryMode, queries: int) -> int:
    match mode:
        case "fixed" | "uniform":
            return 1
        case "split":
            return queries
        case _:
            assert_never(mode)


def _families(mode: QueryMode, queries: int, chains: int | None) -> int:
    """How many nested chains hold all that may be asked."""
    match mode:
        case "uniform":
            return whole(chains, field="chains", least=1, most=MOST_CHAINS)
        case "fixed" | "split":
            if chains is not None:
                raise ParameterError("chains", chains, "nothing, but in mode uniform")
            return queries
        case _:
            assert_never(mode)
