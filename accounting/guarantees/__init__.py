"""What can be promised: the closed union of privacy guarantees, and how each may fail.

A guarantee is numbers only; the neighbouring relation stands beside it, in the scope or the document. Each is also a
leaf of the composition tree: a declared guarantee, priced by what it says. It answers itself what it means as an
epsilon, which price a claim of it needs, how it adds up with others of its kind, and how it reads in words.

>>> ApproxDP(epsilon=3, delta=1e-6)
ApproxDP(epsilon=Decimal('3'), delta=Decimal('0.000001'), kind='approx_dp')
>>> PureDP("-1")
Traceback (most recent call last):
...
dpledger.errors.ParameterError: PureDP.epsilon: expected a number that is not negative, got -1
"""

from dpledger.accounting.guarantees.answers import TOO_LARGE, Need, Point
from dpledger.accounting.guarantees.divergences import GDP, RDP, ZCDP, Grid, one_epsilon_an_order, rising_orders
from dpledger.accounting.guarantees.epsilons import ApproxDP, BoundedRange, PrivacyCurve, PureDP
from dpledger.accounting.guarantees.failures import AccuracyFailure, Failure, PrivacyFailure
from dpledger.accounting.guarantees.union import GUARANTEES, Guarantee, warn_where_implausible, words_of

__all__ = [
    "GDP",
    "GUARANTEES",
    "RDP",
    "TOO_LARGE",
    "ZCDP",
    "AccuracyFailure",
    "ApproxDP",
    "BoundedRange",
    "Failure",
    "Grid",
    "Guarantee",
    "Need",
    "Point",
    "PrivacyCurve",
    "PrivacyFailure",
    "PureDP",
    "one_epsilon_an_order",
    "rising_orders",
    "warn_where_implausible",
    "words_of",
]
