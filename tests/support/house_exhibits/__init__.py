"""Exhibits of this project's own learners and releases: right and wrong, each with its true loss on its pair.

They are what `dpledger.audit.zoo` is to a user, for mechanisms that only this project has."""

from __future__ import annotations

from collections.abc import Mapping

from dpledger.audit.zoo import Exhibit
from house_exhibits.learning.classes import LEARNED_CLASSES
from house_exhibits.learning.clipped import CLIPPED
from house_exhibits.learning.medians import MEDIANS
from house_exhibits.learning.parities import PARITIES
from house_exhibits.learning.queries import QUERIED
from house_exhibits.learning.surrogates import SURROGATES
from house_exhibits.learning.tables import BOOSTED
from house_exhibits.learning.users import LEARNED_FROM_USERS
from house_exhibits.stability.labelled import LABELLED
from house_exhibits.stability.stable import CHARGED, STABLE
from house_exhibits.stability.voted import VOTED

__all__ = ["HOUSE"]

HOUSE: Mapping[str, Exhibit] = {
    **CHARGED,
    **STABLE,
    **VOTED,
    **LABELLED,
    **LEARNED_CLASSES,
    **PARITIES,
    **QUERIED,
    **SURROGATES,
    **MEDIANS,
    **BOOSTED,
    **CLIPPED,
    **LEARNED_FROM_USERS,
}
"""By name."""
