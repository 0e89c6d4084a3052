"""How likely a sparse vector that releases a value with each free answer releases one that the unit changed.

A query is *critical* if neighbours give it different values; its distance is then 0 on both. The value is released if
the test passes, at the public threshold `stable_at`, whole steps above 0. That chance is a delta of its own, beside the
one of composition (docs/proofs/sparse_vector.md, "Released values").
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.families.sparse_vector.accuracy import difference_tail
from dpledger.accounting.families.sparse_vector.leaf import SparseVectorLaw
from dpledger.decimals import ZERO, multiply

__all__ = ["stability_delta"]

ONE = Decimal(1)
TINY = Decimal("1e-60")  # the least delta that can be written: what is below it counts as it


@lru_cache(maxsize=4096)
def stability_delta(law: SparseVectorLaw) -> Decimal:
    """The chance that the value of a critical query is released, from above; 0 of a law that releases none.

    Claim: at least that chance, whatever adaptive stream is asked: 1 - (1 - p)^cutoff, with p that of one critical
    test; in single_threshold, whose tests share their threshold, cutoff p.
    Source: docs/proofs/sparse_vector.md, "Released values".
    """
    if law.stable_at is None:
        return ZERO
    one = difference_tail(Decimal(law.stable_at + 1), law.threshold_scale, law.query_scale, noise="discrete_laplace")
    each = max(one, TINY)
    at_most = min(ONE, outward.above(multiply(each, law.cutoff)))
    if law.mode == "single_threshold":
        return at_most
    with localcontext(outward.context(each)):
        return min(at_most, outward.above(-outward.expm1(law.cutoff * outward.ln1p(-each))))
