"""GNMax and Confident-GNMax: exact laws, prices, what comes back, and noise that is too small, which is found."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pytest

from dpledger.accounting.composition import DiscreteGaussianLaw, Group, Repeated, Sequence
from dpledger.accounting.guarantees import ZCDP
from dpledger.accounting.profile import compose
from dpledger.errors import Halted, ParameterError, RelationError
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.stability.answers import UNSTABLE
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.noisy_votes import NoisyVotes
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from house_cases import HOUSE
from house_cases.stability.noisy import NOISY, law_of
from judged_cases import judged
from mechanism_conformance import MechanismConformance
from voting_models import speaking, spread

pytestmark = pytest.mark.sliced

ADD, REPLACE, ZERO, FLIP = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.LABEL_FLIP
RECORD = Unit("record")
SALT = Hashed("salt")
EVERYBODY = {relation: spread(61) for relation in Relation} | {ADD: spread(61, "random", unsafe_entropy=seeded(1))}
CONFIDENT: dict[str, Any] = {"threshold": 40, "threshold_sigma": 5, "max_answers": 6}
BAD: tuple[dict[str, object], ...] = tuple(
    {field: value}
    for field, values in {
        "sigma": (0, -1, "nan", None),
        "chunks": (0, 2, 2.5, True, None),
        "max_queries": (0, -1, 2.5, None),
        "classes": (0, 2.5, True),
        "threshold": (-1, 2.5),
        "threshold_sigma": (0, "nan"),
        "max_answers": (0, 2.5),
        "chunker": ("consecutive", None, Hashed),
        "learner": ("", 3),
    }.items()
    for value in values
)


class TestNoisyVotes(MechanismConformance):
    relations = tuple(Relation)
    bad_parameters = (*BAD, {"threshold": 3}, {"max_answers": 3}, {"threshold_sigma": 3})
    bad_containers: ClassVar[tuple[object, ...]] = (None, [1, 2], spread(5), spread(61, SALT), spread(61, classes=3))
    changes: ClassVar[dict[str, Any]] = {}

    def make(self, **changes: Any) -> Any:
        return NoisyVotes(**{"sigma": 9, "chunks": 61, "max_queries": 13, **self.changes, **changes})

    def data_of(self, mechanism: Any) -> object:
        return EVERYBODY[mechanism.relation]

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        run = mechanism.open(data, entropy=seeded(seed))
        answers = (run.ask(60.0), *run.ask_many([2.0, 55.0, 41.0, 33.0, 30.0, 30.0]))
        release: Release[Any] = run.close()
        return replace(release, value=(answers, release.value))


class TestConfident(TestNoisyVotes):
    bad_parameters = (*BAD, {"max_answers": 14}, {"threshold": None})
    changes = CONFIDENT


# ---- laws -----------------------------------------------------------------------------------------------------------


def opened(mechanism: NoisyVotes, votes: tuple[int, ...], seed: int) -> Any:
    """A run over an ensemble of 5 that votes so on every query."""
    table = [[one] * 5000 for one, many in enumerate(votes) for _ in range(many)]
    return mechanism.under(REPLACE, RECORD).open(speaking(table, len(votes)), entropy=seeded(seed))


def found_of(mechanism: NoisyVotes, votes: tuple[int, ...], runs: int) -> Counter[int]:
    answers = opened(mechanism, votes, 3).ask_many(np.arange(float(runs)))
    return Counter(len(votes) if answer is UNSTABLE else answer for answer in answers)


@pytest.mark.parametrize("votes", [(3, 2), (2, 2, 1), (5, 0)])
def test_it_answers_by_its_law(votes: tuple[int, ...]) -> None:
    runs = 4_000
    plain = NoisyVotes(sigma="1.5", chunks=5, max_queries=runs, classes=len(votes))
    assert events_p_value(found_of(plain, votes, runs), runs, law_of(votes, 1.5)) > SIGNIFICANCE
    assert events_p_value(found_of(plain, votes, runs), runs, law_of((0, 5, 0)[: len(votes)], 1.5)) < SIGNIFICANCE
    confident = NoisyVotes(
        sigma="1.5", chunks=5, max_queries=runs, classes=len(votes), threshold=4, threshold_sigma=2, max_answers=runs
    )
    true = law_of(votes, 1.5, 4, 2.0)
    assert math.fsum(true.values()) == pytest.approx(1)
    assert events_p_value(found_of(confident, votes, runs), runs, true) > SIGNIFICANCE
    assert events_p_value(found_of(confident, votes, runs), runs, law_of(votes, 1.5, 3, 2.0)) < SIGNIFICANCE


def test_no_neighbours_lose_more_than_the_profile_of_its_parts() -> None:
    """All votes of three models for three classes, and every change of one vote."""
    plain = NoisyVotes(sigma=1, chunks=3, max_queries=1, classes=3)
    confident = NoisyVotes(sigma=1, chunks=3, max_queries=1, classes=3, threshold=2, threshold_sigma=1, max_answers=1)
    tables = [votes for votes in itertools.product(range(4), repeat=3) if sum(votes) <= 3]
    for mechanism, asked in ((plain, ()), (confident, (2, 1.0))):
        profile = compose(mechanism.under(REPLACE, RECORD))
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            most = profile.delta(epsilon).upper
            for left, right in itertools.permutations(tables, 2):
                if is_one_vote_apart(left, right):
                    one, other = law_of(left, 1.0, *asked), law_of(right, 1.0, *asked)
                    lost = sum(max(0.0, one[key] - math.exp(epsilon) * other[key]) for key in one)
                    assert lost <= most + 1e-12


def is_one_vote_apart(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    moved = sorted(x - y for x, y in zip(left, right, strict=True) if x != y)
    return moved in ([-1], [1], [-1, 1])


# ---- prices ---------------------------------------------------------------------------------------------------------


def test_what_it_costs() -> None:
    plain = NoisyVotes(sigma=40, chunks=250, max_queries=300)
    assert plain.parts() == Repeated(Repeated(DiscreteGaussianLaw(40, 1), times=2), times=300)
    assert plain.claim() == ZCDP(Decimal(300) / 1600)
    confident = NoisyVotes(sigma=40, chunks=250, max_queries=300, threshold=200, threshold_sigma=100, max_answers=50)
    assert isinstance(confident.parts(), Sequence)
    assert confident.claim() == ZCDP(Decimal(300) / 20_000 + Decimal(50) / 1600)
    assert confident.steps_to_grant() is None


def test_two_chunks_that_may_change_cost_a_group_of_two() -> None:
    hashed = NoisyVotes(sigma=40, chunks=61, max_queries=10, chunker=SALT)
    placed = hashed.under(REPLACE, RECORD)
    parts = placed.parts()
    assert isinstance(parts, Repeated)
    assert isinstance(parts.of, Group)
    assert placed.claim().rho == 4 * hashed.claim().rho
    assert placed.votes_moved.value == 2 * hashed.votes_moved.value
    for relation in (ADD, ZERO, FLIP):
        assert hashed.under(relation, RECORD).claim() == hashed.claim()
    with pytest.raises(RelationError):
        NoisyVotes(sigma=40, chunks=61, max_queries=10, chunker="slots").under(ADD, RECORD)


def test_queries_that_were_not_granted_come_back() -> None:
    scope = Ledger.in_memory().scope("people", unit="record", relation="replace_one", budget=ZCDP(1))
    mechanism = NoisyVotes(sigma=10, chunks=61, max_queries=40)
    with scope.open(mechanism, spread(61)) as run:
        assert run.ask(60.0) in (0, 1)
        assert len(run.ask_many([3.0, 55.0, 30.0])) == 3
    assert run.receipt.value.asked == 4
    assert scope.releases().to_frame().shape[0] == 1
    with scope.open(NoisyVotes(sigma=10, chunks=61, max_queries=96), spread(61)):  # as many as are left
        pass


def test_it_halts_after_its_last_answer() -> None:
    run = opened(
        NoisyVotes(sigma=1, chunks=5, max_queries=50, threshold=0, threshold_sigma=1, max_answers=3), (5, 0), 1
    )
    assert len([one for one in run.ask_many(np.zeros(40)) if one is not UNSTABLE]) == 3
    assert run.halted
    with pytest.raises(Halted):
        run.ask(0.0)
    assert run.close().value.answered == 3


def test_max_answers_are_no_more_than_the_queries() -> None:
    with pytest.raises(ParameterError, match="max_answers"):
        NoisyVotes(sigma=1, chunks=5, max_queries=5, threshold=3, threshold_sigma=1, max_answers=6)


# ---- faulty ones ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NOISY)
def test_the_auditor_finds_the_faulty_ones(name: str) -> None:
    case = HOUSE[name]
    result = judged(name, trials=case.runs)
    assert result.epsilon_lower <= case.true_epsilon
