"""The exponential mechanism: the law that a composition tree holds."""

from __future__ import annotations

from typing import Literal

from dpledger.number_fields import Exact
from dpledger.schema import record, tag

__all__ = ["ExponentialLaw"]


@record
class ExponentialLaw:
    """The exponential mechanism with weights e^{epsilon score / (2 sensitivity)}: another word for a bounded range of
    eta = epsilon. McSherry-Talwar 2007; Durfee-Rogers 2019, Lemma 3.2.

    >>> round(dpl.compose((dpl.ExponentialLaw("0.1"), 20)).epsilon("1e-6").upper, 3)
    0.932
    """

    epsilon: Exact
    kind: Literal["exponential"] = tag(default="exponential")
