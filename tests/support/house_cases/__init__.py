"""Cases of this project's own learners and releases: right and wrong, each with its true loss on its pair.

They are what `dpledger.audit.zoo` is to a user, for mechanisms that only this project has."""

from __future__ import annotations

from collections.abc import Mapping

from dpledger.audit.zoo import Case
from house_cases.columns import COLUMNS
from house_cases.falling import FALLING
from house_cases.groups import GROUPS
from house_cases.learning.classes import LEARNED_CLASSES
from house_cases.learning.clipped import CLIPPED
from house_cases.learning.medians import MEDIANS
from house_cases.learning.parities import PARITIES
from house_cases.learning.queries import QUERIED
from house_cases.learning.surrogates import SURROGATES
from house_cases.learning.tables import BOOSTED, LOGISTIC
from house_cases.learning.users import LEARNED_FROM_USERS
from house_cases.selection import SELECTED
from house_cases.stability.labelled import LABELLED
from house_cases.stability.noisy import HYBRID, NOISY
from house_cases.stability.stable import CHARGED, STABLE
from house_cases.stability.voted import VOTED
from house_cases.training import TRAINED

__all__ = ["HOUSE"]

HOUSE: Mapping[str, Case] = {
    **COLUMNS,
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
    **LOGISTIC,
    **CLIPPED,
    **LEARNED_FROM_USERS,
    **SELECTED,
    **NOISY,
    **HYBRID,
    **GROUPS,
    **FALLING,
    **TRAINED,
}
"""By name."""
