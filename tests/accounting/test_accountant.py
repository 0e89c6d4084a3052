"""The online accountant: at every step its bounds and those of `compose` are for one number, and it can be put away."""

import copy
import json
import math
import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.accountant import Accountant
from dpledger.accounting.composition import (
    Composition,
    GaussianLaw,
    LaplaceLaw,
    Parallel,
    PoissonSampled,
    Repeated,
)
from dpledger.accounting.documents import Document, DocumentLine
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.accounting.profile import Bounds, Profile, compose
from dpledger.errors import CannotCertify, DpledgerError, ParameterError, RelationError
from dpledger.relations import Relation
from dpledger.strict_json import JsonValue
from engine_oracles import gaussian_delta, real
from threads import Meeting, together

STEP = PoissonSampled(GaussianLaw("1.1"), rate="0.02")
OTHER = PoissonSampled(GaussianLaw("0.9"), rate="0.005")
LEAVES: list[Composition] = [STEP, OTHER, GaussianLaw(9), LaplaceLaw("0.05"), PureDP("0.03")]


def same(left: Bounds, right: Bounds) -> bool:
    return max(left.lower, right.lower) <= min(left.upper, right.upper)


@pytest.mark.sliced
@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(LEAVES), st.integers(1, 400)), min_size=1, max_size=6),
    st.sampled_from(["1e-3", "1e-6", "1e-12"]),
)
def test_every_step_agrees_with_composing_everything_so_far(appends: list[tuple[Composition, int]], delta: str) -> None:
    accountant, so_far = Accountant(delta), []
    for leaf, count in appends:
        so_far.append(Repeated(leaf, times=count))
        found = accountant.append(leaf, count)
        whole = compose(dpl.Sequence(tuple(so_far))).epsilon(delta)
        assert same(found, whole)
        assert found.upper - found.lower <= max(5e-4 * whole.upper, 2 * (whole.upper - whole.lower))
        assert accountant.epsilon == found


def test_gaussians_one_by_one_against_the_closed_form() -> None:
    """Balle-Wang 2018: at the bounds of epsilon the exact delta is on either side."""
    accountant = Accountant("1e-5")
    for steps in range(1, 120):
        at = accountant.append(GaussianLaw(20))
        mu = real(steps) ** 0.5 / 20
        assert gaussian_delta(mu, real(at.upper)) <= real("1e-5") * (1 + real("1e-12"))
        assert at.lower == 0 or gaussian_delta(mu, real(at.lower)) >= real("1e-5") * (1 - real("1e-12"))
        assert at.upper - at.lower <= 1e-3 * at.upper


def test_one_direction_alone() -> None:
    sides = {side: Accountant("1e-5", direction=side).append(STEP, 500) for side in ("add", "remove")}
    both = Accountant("1e-5").append(STEP, 500)
    assert same(both, max(sides.values(), key=lambda bounds: bounds.upper))
    assert same(sides["add"], compose(Repeated(STEP, times=500), direction="add").epsilon("1e-5"))


@pytest.mark.parametrize("leaf", [ZCDP("0.001"), Parallel((STEP, GaussianLaw(5)))], ids=lambda leaf: leaf.kind)
def test_what_has_no_finite_loss_is_composed_as_a_whole(leaf: Composition) -> None:
    accountant = Accountant("1e-5")
    accountant.append(STEP, 300)
    found = accountant.append(leaf, 3)
    whole = compose((STEP, 300), (leaf, 3)).epsilon("1e-5")
    assert found == whole
    assert accountant.append(STEP).upper >= whole.lower


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 300)), min_size=1, max_size=6), st.sampled_from("579"))
def test_mass_at_infinity_is_taken_from_delta(appends: list[tuple[int, int]], digits: str) -> None:
    """With failures the finite losses have the rest of delta, (delta - m)/(1 - m); beyond it epsilon is infinite."""
    leaves: list[Composition] = [ApproxDP("0.05", "1e-8"), STEP, GaussianLaw(9), ApproxDP("0.02", "3e-10")]
    delta, accountant, counts = f"1e-{digits}", Accountant(f"1e-{digits}"), dict.fromkeys(leaves, 0)
    for which, count in appends:
        counts[leaves[which]] += count
        found = accountant.append(leaves[which], count)
        whole = compose([(leaf, n) for leaf, n in counts.items() if n]).epsilon(delta)
        assert same(found, whole)
        assert whole.upper == found.upper == math.inf or found.upper - found.lower <= max(
            5e-4 * whole.upper, 2 * (whole.upper - whole.lower)
        )
    mass = counts[leaves[0]] * 1e-8 + counts[leaves[3]] * 3e-10
    assert (found.lower == math.inf) == (mass > float(delta) * 1.001) or abs(mass / float(delta) - 1) < 0.01
    assert same(Accountant.resume(accountant.record()).epsilon, found)


def test_a_record_is_exact_json_and_resumes() -> None:
    accountant = Accountant("1e-5")
    accountant.append(STEP, 300)
    accountant.append(LaplaceLaw("0.05"), 7)
    record = accountant.record()
    assert record == {
        "delta": "0.00001",
        "document": {
            "relation": "add_remove",
            "entries": [
                {
                    "mechanism": {
                        "of": {"noise_multiplier": "1.1", "kind": "gaussian"},
                        "rate": "0.02",
                        "kind": "poisson_sampled",
                    },
                    "count": 300,
                },
                {"mechanism": {"epsilon": "0.05", "kind": "laplace"}, "count": 7},
            ],
        },
    }
    resumed = Accountant.resume(json.loads(json.dumps(record)))
    assert resumed.record() == record
    assert same(resumed.epsilon, accountant.epsilon)
    assert same(resumed.append(STEP), accountant.append(STEP))
    one = Accountant("1e-5", direction="add", relation="zero_out")
    one.append(GaussianLaw(3))
    again = Accountant.resume(one.record())
    assert (again.direction, again.relation, again.epsilon) == ("add", one.relation, one.epsilon)


GDP_DOCUMENT: JsonValue = {"relation": "add_remove", "entries": [{"mechanism": {"kind": "gdp", "mu": "1"}}]}


@pytest.mark.parametrize(
    "record",
    [
        None,
        {},
        {"delta": "1e-5"},
        {"delta": 1, "document": GDP_DOCUMENT},
        {"delta": "1e-5", "document": []},
        {"delta": "1e-5", "document": GDP_DOCUMENT, "places": {}},
        {"delta": "1e-5", "document": {"relation": "add_remove", "entries": []}},
        {"delta": "2", "document": GDP_DOCUMENT},
        {
            "delta": "1e-5",
            "document": {"relation": "sideways", "entries": [{"mechanism": {"kind": "gdp", "mu": "1"}}]},
        },
    ],
)
def test_records_that_are_none_are_refused(record: JsonValue) -> None:
    with pytest.raises(ParameterError):
        Accountant.resume(record)


def test_what_was_kept_elsewhere_is_merged() -> None:
    left, right, both = Accountant("1e-6"), Accountant("1e-6"), Accountant("1e-6")
    for accountant in (left, both):
        accountant.append(STEP, 200)
        accountant.append(GaussianLaw(9))
    for accountant in (right, both):
        accountant.append(OTHER, 300)
        accountant.append(STEP, 50)
    assert same(left.merge(right), both.epsilon)
    assert same(left.epsilon, compose((STEP, 250), (OTHER, 300), GaussianLaw(9)).epsilon("1e-6"))
    before = right.epsilon
    assert same(right.merge(Accountant("1e-6")), before)
    with pytest.raises(ParameterError, match="delta"):
        left.merge(Accountant("1e-5"))
    with pytest.raises(RelationError):
        left.merge(Accountant("1e-6", direction="add"))
    with pytest.raises(RelationError):
        left.merge(Accountant("1e-6", relation="zero_out"))


def test_a_merge_that_cannot_be_changes_nothing() -> None:
    left, right = Accountant("1e-5", direction="add"), Accountant("1e-5", direction="add")
    left.append(GaussianLaw(10**6), 10**12 - 5)
    right.append(STEP, 3)
    right.append(GaussianLaw(10**6), 6)
    before = left.record()
    with pytest.raises(ParameterError, match="count"):
        left.merge(right)
    assert left.record() == before


def test_counts_beyond_the_floats_are_exact() -> None:
    tree = Repeated(GaussianLaw(10**9), times=10**12)
    accountant = Accountant("1e-5")
    accountant.append(tree, 3)
    found = accountant.append(tree, 10**6 + 1)
    total = 10**12 * (10**6 + 4)
    mu = real(total) ** 0.5 / 10**9
    assert gaussian_delta(mu, real(found.upper)) <= real("1e-5") <= gaussian_delta(mu, real(found.lower))


@pytest.mark.parametrize("delta", [0, 1, "nan", "-1e-5", "x", math.inf])
def test_bad_deltas_are_refused(delta: object) -> None:
    with pytest.raises(ParameterError, match="delta"):
        Accountant(delta)  # type: ignore[arg-type]


def test_a_bad_append_changes_nothing() -> None:
    accountant = Accountant("1e-5")
    before = accountant.append(STEP, 100)
    for what, count, error in (
        (STEP, 0, ParameterError),
        (STEP, True, ParameterError),
        (STEP, 10**12, ParameterError),
        ("step", 1, DpledgerError),
        (PoissonSampled(ZCDP("0.1"), rate="0.1"), 1, CannotCertify),
        (Document(Relation.REPLACE_ONE, (DocumentLine(GaussianLaw(1)),)), 1, RelationError),
        (Document(Relation.ADD_REMOVE, (DocumentLine(GaussianLaw(1)),), direction="add"), 1, RelationError),
    ):
        with pytest.raises(error):
            accountant.append(what, count)  # type: ignore[arg-type]
        assert accountant.epsilon == before
        assert same(Accountant.resume(accountant.record()).epsilon, before)
    with pytest.raises(ParameterError, match="at least one"):
        Accountant("1e-5").profile()


# ---- threads and copies ---------------------------------------------------------------------------------------------


def test_what_two_threads_append_is_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a lock, both would begin with the counts of before, and the later one replace what the other added."""
    accountant, meeting, composed = Accountant("1e-5"), Meeting(), Accountant._profile

    def slowly(self: Accountant, counts: Mapping[Composition, int]) -> Profile:
        meeting.wait()
        return composed(self, counts)

    monkeypatch.setattr(Accountant, "_profile", slowly)
    together(lambda: accountant.append(GaussianLaw(9), 3), lambda: accountant.append(GaussianLaw(9), 4))
    alone = Accountant("1e-5")
    alone.append(GaussianLaw(9), 7)
    assert accountant.record() == alone.record()
    assert accountant.epsilon == alone.epsilon


def test_a_copy_of_an_accountant_counts_on_for_itself() -> None:
    accountant = Accountant("1e-5")
    accountant.append(GaussianLaw(9), 3)
    before = accountant.record()
    for copied in (copy.deepcopy(accountant), pickle.loads(pickle.dumps(accountant))):
        copied.append(GaussianLaw(9), 4)
        assert copied.epsilon.lower > accountant.epsilon.upper
    assert accountant.record() == before
