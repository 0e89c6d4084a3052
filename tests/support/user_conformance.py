"""What every mechanism for users with two examples each must do, whatever the examples hold."""

from __future__ import annotations

import numpy as np

from dpledger.mechanisms.learning.samples import UserSample
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance
from users_oracle import Users

__all__ = ["PAIR", "ForPairs", "sample_of"]

PAIR = Unit("user", max_contributions=2)
NAN = float("nan")


def sample_of(users: Users, m: int) -> UserSample:
    rows = np.array(users, dtype=np.int64).reshape(len(users), m, 2)
    return UserSample(rows[:, :, 0], rows[:, :, 1])


class ForPairs(MechanismConformance):
    """Users with two examples each."""

    relations = tuple(Relation)
    unit = PAIR
    good_data = UserSample(np.array([[0, 1], [2, 3], [1, 1]]), np.array([[1, 1], [0, 0], [0, 1]]))
    bad_data = (
        UserSample(np.zeros((0, 2)), np.zeros((0, 2))),
        UserSample(np.array([[NAN, 1.0], [np.inf, -np.inf]]), np.array([[1.0, NAN], [0.0, 7.0]])),
        UserSample(np.array([[None, 2**200], ["x", -1]], dtype=object), np.array([["a", 1], [None, 0]], dtype=object)),
    )
    bad_containers = (
        None,
        [[1, 0]],
        UserSample(np.zeros((2, 3)), np.zeros((2, 3))),
        UserSample(np.zeros((2, 2)), np.zeros((3, 2))),
        UserSample(np.zeros(4), np.zeros(4)),
    )
