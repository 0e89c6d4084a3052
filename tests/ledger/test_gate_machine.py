"""The gate, the fold and the settling rules under arbitrary histories (Hypothesis state machines).

One machine works on the pure rules (`gate.decide`, `state.step`); the other on a SQLite file that is reopened at will.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

import ledger_golden
from dpledger.accounting import filters
from dpledger.accounting.composition import (
    Composition,
    ExPostDP,
    GaussianLaw,
    Repeated,
    SparseVectorLaw,
    SparseVectorOutcome,
)
from dpledger.accounting.ex_post.boundaries import MixtureBoundary, height
from dpledger.accounting.ex_post.odometer import Odometer
from dpledger.accounting.guarantees import ApproxDP, PrivacyFailure, PureDP
from dpledger.accounting.planning.allotting import Allowance
from dpledger.accounting.pricing.costs import cost
from dpledger.accounting.pricing.outcomes import planned
from dpledger.errors import (
    AlreadySpent,
    BudgetRefused,
    ChargeInProgress,
    KeyReused,
    PolicyError,
    ScopeBusy,
    VerificationError,
)
from dpledger.ledger.accounts import recomposition
from dpledger.ledger.accounts.overlap import same_people
from dpledger.ledger.entries.bodies import FORMAT, Aborted, Body, LedgerOpened, Progress, Reserved, Started
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.entries.members import LevelCharge, MechanismNote, Step
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules import course, gate
from dpledger.ledger.rules.capability import REDEEM_BYTES, Redeem
from dpledger.ledger.rules.gate import Admitted, Outdated, RefusedRequest, Replayed
from dpledger.ledger.rules.opening import Rules
from dpledger.ledger.rules.requested import Earlier, Request
from dpledger.ledger.rules.scope_state import EMPTY, OpenCharge, State, is_exclusive, next_steps
from dpledger.ledger.rules.transitions import fold, step
from dpledger.ledger.saved import SavedFold, restored, saved
from dpledger.ledger.signed import merkle
from dpledger.ledger.verifying import verification
from dpledger.relations import Relation, Unit
from ledger_forger import forged
from ledger_mechanisms import Stream, Told, laplace, stream, training

pytestmark = pytest.mark.sliced

PURE, EITHER, COPIES, CHOSEN = "pure", "either", "copies", "chosen"
ODOMETER = Odometer("mixture", tuning="0.5", delta_boundary="0.000001", delta_sum="0.000001")
LAW = GaussianLaw(40)
SAID: dict[str, dict[str, Any]] = {
    PURE: {"budget": PureDP(2), "dataset": "patients"},
    EITHER: {"budget": ApproxDP(2, "0.000001"), "dataset": "patients"},
    COPIES: {"budget": ApproxDP(2, "0.000001"), "allowance": Allowance(LAW, share="0.7"), "dataset": "visits"},
    CHOSEN: {"budget": ApproxDP(2, "0.000001"), "orders": (8, 3), "odometer": ODOMETER, "dataset": "visits"},
    "both": {"budget": PureDP(2), "parents": (EITHER, PURE)},
    "under": {"budget": ApproxDP(2, "0.000001"), "parents": (CHOSEN, COPIES)},
}
"""How each scope is opened: in its caller's words."""
TOGETHER = {"patients": ApproxDP(4, "0.000001"), "visits": ApproxDP(4, "0.000002")}
EXCLUSIVE = Stream(
    claimed=ApproxDP("0.05", "0.00000001"),
    made_of=ExPostDP("0.05", "integrated", "0.00000001"),
    kind="exclusive",
    causes=(PrivacyFailure("0.00000001", "approximation"),),
)
MECHANISMS: tuple[Told, ...] = (
    laplace("0.1"),
    laplace("0.7"),
    laplace("1.5"),
    stream("0.6", 2),
    training(40, "40"),
    training(400, "25"),
    EXCLUSIVE,
)
SCOPES = st.sampled_from(list(SAID))
ALONE = st.sampled_from([PURE, EITHER, COPIES, CHOSEN])
KEYS = st.sampled_from([f"k{number}" for number in range(6)])
TAILS = st.sampled_from([None, Decimal(0), Decimal("0.00000001")])
REDEEMS = st.binary(min_size=REDEEM_BYTES, max_size=REDEEM_BYTES).map(Redeem)


@functools.cache
def openings() -> tuple[Body, ...]:
    """The ledger, and every scope."""
    ledger = LedgerOpened(
        format=FORMAT,
        public_key=ledger_golden.KEY.public.text,
        recovery_key=ledger_golden.RECOVERY.public.text,
        witness="off",
    )
    return (ledger, *(rules(name).opening() for name in SAID))


def rules(name: str) -> Rules:
    said: dict[str, Any] = {"parents": None, "dataset": None, **SAID[name]}
    return Rules.read(name, "patient", "add_remove", keep="none", **said)


def outcome_of(parts: Composition, draw: int, granted: int) -> Composition:
    """What a run of `parts` may come to."""
    match parts:
        case Repeated(of=of, times=times):
            return Repeated(of, times=times, done=min(times, granted + draw % 3))
        case SparseVectorLaw():
            closed = tuple(1 + draw % 4 for _ in range(draw % (parts.cutoff + 1)))
            values = {name: getattr(parts, name) for name in parts.__dataclass_fields__ if name != "outcome"}
            halted = len(closed) == parts.cutoff
            return SparseVectorLaw(**values, outcome=SparseVectorOutcome(closed, 0 if halted else draw % 5, halted))
        case _:
            return parts


class GateMachine(RuleBasedStateMachine):
    """Everything that may happen to a charge, in any order; each body is folded at once."""

    reserved: Bundle[str] = Bundle("reserved")
    running: Bundle[str] = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[Body] = list(openings())
        self.state: State = fold(self.bodies)
        self.known: dict[tuple[str, str], Earlier] = {}
        self.asked: dict[tuple[str, str], tuple[Told, set[Decimal | None]]] = {}  # and the tails that ask for the same
        self.refused: set[tuple[str, str]] = set()
        self.redeems: dict[str, Redeem] = {}
        self.ran: dict[str, Composition] = {}

    def append(self, body: Body) -> None:
        self.state = step(self.state, body)
        self.bodies.append(body)

    def illegal(self, body: Body) -> None:
        """The fold refuses, and nothing changes."""
        before = self.state
        try:
            step(before, body)
        except VerificationError:
            assert self.state == before
        else:
            raise AssertionError(f"accepted: {body}")

    def path(self, charge: str) -> tuple[Step, ...]:
        return next_steps(self.state, self.state.charge(charge).path)

    @rule(target=running, scope=SCOPES, key=KEYS, redeem=REDEEMS, mechanism=st.sampled_from(MECHANISMS), tail=TAILS)
    def start_at_once(self, scope: str, key: str, redeem: Redeem, mechanism: Told, tail: Decimal | None) -> Any:
        return multiple(*self.started(scope, key, redeem, mechanism, tail))

    @rule(target=running, charge=reserved, key=KEYS, redeem=REDEEMS)
    def open_something_exclusive_beside(self, charge: str, key: str, redeem: Redeem) -> Any:
        return multiple(*self.started(self.state.charge(charge).scope, key, redeem, EXCLUSIVE, None))

    def started(self, scope: str, key: str, redeem: Redeem, mechanism: Told, tail: Decimal | None) -> list[str]:
        charges = self.decide(scope, key, redeem, mechanism, tail)
        self.redeems.update(dict.fromkeys(charges, redeem))
        return charges

    @rule(target=reserved, scope=SCOPES, key=KEYS, mechanism=st.sampled_from(MECHANISMS), tail=TAILS)
    def reserve(self, scope: str, key: str, mechanism: Told, tail: Decimal | None) -> Any:
        return multiple(*self.decide(scope, key, None, mechanism, tail))

    def decide(self, scope: str, key: str, redeem: Redeem | None, mechanism: Told, tail: Decimal | None) -> list[str]:
        """Ask; the charge, if admitted. A repetition, a reused key or a refusal leaves every sum as it was."""
        tail = tail if scope in (EITHER, CHOSEN, "under") else None  # the other scopes take no price from a profile
        charge = f"{len(self.bodies):032x}"
        steps = mechanism.made_of.times if isinstance(mechanism.made_of, Repeated) else None
        request = Request(
            scope=scope,
            key=key,
            charge=charge,
            mechanism=MechanismNote(mechanism.kind, mechanism.parameters(), "test"),
            relation=Relation.ADD_REMOVE,
            unit=Unit("patient"),
            claim=mechanism.claim(),
            parts=mechanism.parts(),
            failures=mechanism.failures(),
            form="training" if steps else "interaction" if isinstance(mechanism, Stream) else "release",
            steps=steps,
            redeem=None if redeem is None else redeem.digest,
            tail_delta=tail,
        )
        earlier, first = self.known.get((scope, key)), self.asked.get((scope, key))
        is_same = first is not None and first[0] is mechanism and tail in first[1]
        before = self.state
        if earlier is not None and (not is_same or earlier.status != "committed"):
            refused_by = (AlreadySpent, ChargeInProgress) if is_same else KeyReused
            with pytest.raises(refused_by):
                gate.decide(before, request, earlier)
            return []
        if earlier is None and self.is_busy(request):
            with pytest.raises(ScopeBusy):
                gate.decide(before, request, None)
            return []
        decision = gate.decide(before, request, earlier)
        assert getattr(gate.decide(before, request, earlier), "body", None) == getattr(decision, "body", None)  # pure
        match decision:
            case Admitted(body=body):
                assert earlier is None
                self.append(body)
                self.known[scope, key] = Earlier(charge=charge, request=body.request, status="open")
                self.asked[scope, key] = mechanism, {tail, body.tail_delta} | ({None} if not body.tail_delta else set())
                self.ran[charge] = body.parts
                return [charge]
            case RefusedRequest(body=refused):
                if (scope, refused.request) not in self.refused:  # as a store keeps them: once
                    self.refused.add((scope, refused.request))
                    self.append(refused)
                assert sums_of(self.state) == sums_of(before)
                assert self.state.open == before.open
                return []
            case Replayed(charge=other):
                assert earlier is not None
                assert (earlier.status, earlier.charge) == ("committed", other)
                return []
            case Outdated():
                raise AssertionError("nothing was priced before")

    def is_busy(self, request: Request) -> bool:
        """Whether something exclusive is open where the request is charged, or it is and an interaction is open."""
        path = self.state.scope(request.scope).path
        beside = [charge for charge in self.state.open.values() if set(charge.path) & set(path)]
        if any(is_exclusive(charge.form, charge.parts) for charge in beside):
            return True
        interactions = any(charge.form != "release" for charge in beside)
        return interactions and is_exclusive(request.form, request.parts)

    def must_wait(self, held: OpenCharge) -> bool:
        """Whether something exclusive is open beside a charge that was reserved."""
        others = (charge for charge in self.state.open.values() if charge.charge != held.charge)
        return any(is_exclusive(one.form, one.parts) and set(one.path) & set(held.path) for one in others)

    @rule(target=running, charge=consumes(reserved), redeem=REDEEMS)
    def start(self, charge: str, redeem: Redeem) -> Any:
        """What must wait, for something exclusive, is given back here instead."""
        held = self.state.charge(charge)
        if self.must_wait(held):
            with pytest.raises(ScopeBusy):
                course.start(self.state, held, redeem)
            self.illegal(Started(path=self.path(charge), charge=charge, redeem=redeem.digest))
            self.give_back(charge)
            return multiple()
        self.append(course.start(self.state, held, redeem))
        self.redeems[charge] = redeem
        return charge

    @rule(charge=consumes(reserved))
    def abort(self, charge: str) -> None:
        self.give_back(charge)

    def give_back(self, charge: str) -> None:
        held = self.state.charge(charge)
        before = sums_of(self.state)
        self.append(Aborted(path=self.path(charge), charge=charge))
        self.ended(charge, "aborted")
        del self.ran[charge]
        for level in held.levels:
            scope = self.state.scope(level.scope)
            again = filters.with_charge(scope.filter, scope.sums, level.amounts)
            assert dict(again) == dict(before[level.scope])

    @rule(charge=running, more=st.integers(1, 30))
    def grant(self, charge: str, more: int) -> None:
        held = self.state.open.get(charge)
        if held is None or held.form != "training":
            return
        upto, redeem = held.granted + more, self.redeems[charge].digest
        body = Progress(path=self.path(charge), charge=charge, redeem=redeem, upto=upto)
        if upto <= (held.steps or 0):
            self.append(body)
        else:
            self.illegal(body)

    @rule(charge=running, redeem=REDEEMS)
    def take_over(self, charge: str, redeem: Redeem) -> None:
        """Another process goes on; the one before is granted, and settles, nothing more."""
        held = self.state.open.get(charge)
        if held is None or held.form != "training":
            return
        before, sums = self.redeems[charge], sums_of(self.state)
        body = course.take_over(self.state, held, redeem)
        if redeem.digest in (held.redeem, *held.replaced):
            self.illegal(body)
            return
        self.append(body)
        self.redeems[charge] = redeem
        assert sums_of(self.state) == sums
        after = self.state.charge(charge)
        assert (after.granted, after.generation) == (held.granted, held.generation + 1)
        for replaces in (None, redeem.digest, before.digest):
            self.illegal(
                Progress(
                    path=self.path(charge),
                    charge=charge,
                    redeem=before.digest,
                    upto=min(held.granted + 1, held.steps or 0),
                    replaces=replaces,
                )
            )
        with pytest.raises(PolicyError, match="only that one can settle it"):
            course.settle(self.state, after, after.parts, redeem=before)

    @rule(charge=consumes(running), draw=st.integers(0, 1000), outside=st.booleans())
    def commit(self, charge: str, draw: int, outside: bool) -> None:
        held = self.state.charge(charge)
        before = sums_of(self.state)
        parts, redeem = outcome_of(held.parts, draw, held.granted), self.redeems[charge]
        body = course.settle(self.state, held, parts, redeem=redeem, outside_guarantee=outside)
        self.append(body)
        self.ended(charge, "committed")
        self.ran[charge] = held.parts if outside else body.parts
        for name, sums in sums_of(self.state).items():
            for coordinate, (total, unpriced) in sums.items():
                assert total <= before[name][coordinate][0]
                assert unpriced == before[name][coordinate][1]
        if outside:
            assert sums_of(self.state) == before

    def ended(self, charge: str, status: Any) -> None:
        for name, earlier in self.known.items():
            if earlier.charge == charge:
                self.known[name] = Earlier(
                    charge=charge, request=earlier.request, status=status, ended=len(self.bodies) - 1
                )

    @precondition(lambda self: self.state.open)
    @rule(data=st.data(), redeem=REDEEMS)
    def try_what_is_illegal(self, data: st.DataObject, redeem: Redeem) -> None:
        charge = data.draw(st.sampled_from(sorted(self.state.open)))
        held, path = self.state.charge(charge), self.path(charge)
        if held.redeem is not None:
            self.illegal(Aborted(path=path, charge=charge))
            self.illegal(Started(path=path, charge=charge, redeem=redeem.digest))
            committed = course.settle(self.state, held, held.parts, redeem=self.redeems[charge])
            cheaper = tuple(
                LevelCharge(level.scope, {name: amount / 2 for name, amount in level.amounts.items()})
                for level in held.levels
            )
            if cheaper != held.levels:
                self.illegal(type(committed)(**{**members(committed), "levels": cheaper}))
            if not redeem.opens(held.redeem):
                self.illegal(type(committed)(**{**members(committed), "redeem": redeem.digest}))
                with pytest.raises(PolicyError, match="only that one can settle it"):
                    course.settle(self.state, held, held.parts, redeem=redeem)
        self.illegal(Aborted(path=path, charge="f" * 31 + "0"))

    @invariant()
    def what_is_saved_of_the_state_is_the_state(self) -> None:
        tree = merkle.CompactRange().extend([bytes(32)] * self.state.size)
        fold = SavedFold(state=self.state, tree=tree, leaf="00" * 32)
        data = saved(fold, ledger_golden.KEY)
        assert data is not None
        assert restored(data, ledger_golden.KEY) == fold

    @invariant()
    def no_budget_is_passed(self) -> None:
        for name, scope in self.state.scopes.items():
            assert filters.admits(scope.filter, scope.sums), name

    @invariant()
    def what_is_kept_of_the_open_charges_is_what_they_hold(self) -> None:
        """The fold keeps it beside the sums, so that nobody has to look through the charges."""
        for name, scope in self.state.scopes.items():
            charges = [charge for charge in self.state.open.values() if name in charge.path]
            amounts = [level.amounts for charge in charges for level in charge.levels if level.scope == name]
            held = filters.opening(scope.filter)
            for amount in amounts:
                held = filters.with_charge(scope.filter, held, amount)
            assert scope.held == held
            assert scope.interactions == sum(charge.form != "release" for charge in charges)
            assert scope.exclusive == sum(is_exclusive(charge.form, charge.parts) for charge in charges)

    @invariant()
    def an_allowance_counts_the_steps_of_its_law_that_were_planned_or_ran(self) -> None:
        charged = [self.settled_parts(charge) for charge in self.ran if COPIES in self.levels(charge)]
        runs = [parts for parts in charged if isinstance(parts, Repeated) and parts.of == LAW]
        copies = sum(run.times if run.done is None else run.done for run in runs)
        assert self.state.scope(COPIES).sums["copies"] == (Decimal(copies), 0)

    def settled_parts(self, charge: str) -> Composition:
        """What a charge ran, or all of its plan where it was priced from its profile and ran at all."""
        parts, reserved = self.ran[charge], self.reserved_body(charge)
        none_ran = isinstance(parts, Repeated) and parts.done == 0
        return reserved.parts if reserved.tail_delta and not none_ran else parts

    def reserved_body(self, charge: str) -> Reserved:
        (found,) = (body for body in self.bodies if isinstance(body, Reserved) and body.charge == charge)
        return found

    def levels(self, charge: str) -> tuple[str, ...]:
        return tuple(one.scope for one in self.reserved_body(charge).path)

    def teardown(self) -> None:
        assert fold(self.bodies) == self.state
        leaves, head = forged(self.bodies, ledger_golden.KEY)
        verified = verification.verify(leaves, head, ledger_golden.KEY.public)
        assert verified.state == self.state
        self.the_odometer_reads_what_ran(verified.entries)
        assert {found.dataset: found.guarantee for found in same_people(self.state).together} == TOGETHER

    def the_odometer_reads_what_ran(self, entries: tuple[Entry, ...]) -> None:
        """By prices in one currency each, chosen before the outcome; and no other scope shows one."""
        shown = {account.scope: account.odometer() for account in recomposition.accounts(entries, self.state)}
        assert {name for name, reading in shown.items() if reading is not None} == {CHOSEN}
        charged = [parts for charge, parts in self.ran.items() if CHOSEN in self.levels(charge)]
        pure = rho = delta = Decimal(0)
        for parts in charged:
            cap, settled = (cost(tree, Relation.ADD_REMOVE) for tree in (planned(parts), parts))
            delta += cap.delta
            if cap.pure is None or (cap.rho is not None and STEEPNESS * cap.rho < cap.pure):
                assert settled.rho is not None
                rho += settled.rho
            else:
                assert settled.pure is not None
                pure += settled.pure
        reading = shown[CHOSEN]
        assert reading is not None
        expected = pure + rho + (height(MIXTURE, 2 * rho) if rho else 0)
        assert reading.epsilon_upper == pytest.approx(expected, rel=Decimal("1e-9"))
        assert (reading.pure, reading.rho, reading.delta_charged) == (pure, rho, delta)


MIXTURE = MixtureBoundary(ODOMETER.tuning, ODOMETER.delta_boundary)
STEEPNESS = 1 + (2 * -ODOMETER.delta_boundary.ln() / ODOMETER.tuning).sqrt()
"""What a unit of rho costs on the line that touches the boundary at its tuning."""


def members(body: Any) -> dict[str, Any]:
    return {name: getattr(body, name) for name in body.__dataclass_fields__}


def sums_of(state: State) -> Mapping[str, Mapping[str, tuple[Decimal, int]]]:
    return {name: scope.sums for name, scope in state.scopes.items()}


class FileMachine(RuleBasedStateMachine):
    """People at a ledger file, who close it and open it again whenever they like."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "clinic.ledger"
        self.book = Ledger.create(self.path)
        self.open_scopes()
        self.results: dict[tuple[str, str], tuple[Any, int]] = {}
        self.granted = Decimal(0)

    def open_scopes(self) -> None:
        """Open them, or find them as they were opened."""
        for name, said in SAID.items():
            self.book.scope(name, unit="patient", relation="add_remove", **said)

    @rule()
    def reopen(self) -> None:
        state = self.book.state
        self.book.close()
        self.book = Ledger.open(self.path)
        self.open_scopes()
        assert self.book.state == state

    @rule(
        scope=ALONE,
        key=KEYS,
        epsilon=st.sampled_from(["0.1", "0.7", "1.5"]),
        value=st.integers(),
    )
    def release(self, scope: str, key: str, epsilon: str, value: int) -> None:
        size = len(self.book)
        try:
            receipt = self.book.scope(scope).release(laplace(epsilon), value, key=key)
        except KeyReused:
            assert (scope, key) in self.results
            assert len(self.book) == size
        except BudgetRefused:
            assert (scope, key) not in self.results
        else:
            if (scope, key) in self.results:
                assert (receipt.value, receipt.entry.index) == self.results[scope, key]
                assert len(self.book) == size
            else:
                assert receipt.value == value
                assert len(self.book) == size + 2
                self.granted += Decimal(epsilon) if scope == PURE else 0
            self.results[scope, key] = (receipt.value, receipt.entry.index)

    @rule(scope=ALONE, asked=st.lists(st.booleans(), max_size=6))
    def ask(self, scope: str, asked: list[bool]) -> None:
        try:
            session = self.book.scope(scope).open(stream("0.6", 2), None)
        except BudgetRefused:
            return
        below = 0
        with session as answers:
            for query in asked:
                if below == 2:
                    break
                answers.ask(query)
                below += not query
        charged = session.receipt.entry.body.levels[0].amounts["pure"]  # type: ignore[union-attr]
        assert charged <= Decimal("0.6")
        assert charged > 0 or not asked
        self.granted += charged if scope == PURE else 0

    @invariant()
    def the_file_holds_what_was_granted(self) -> None:
        (spent, unpriced) = self.book.state.scopes[PURE].sums["pure"]
        assert (spent, unpriced) == (self.granted, 0)
        assert self.granted <= 2

    def teardown(self) -> None:
        verified = self.book.verify()
        assert verified.state == self.book.state
        assert not verified.state.open
        self.book.close()
        self.folder.cleanup()


GateMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
FileMachine.TestCase.settings = settings(
    max_examples=10, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestGate = GateMachine.TestCase
TestFile = FileMachine.TestCase


def test_the_empty_ledger_starts_with_its_opening_alone() -> None:
    opening, scope, *_ = openings()
    assert step(EMPTY, opening).opened == opening
    with pytest.raises(VerificationError, match="not ledger_opened"):
        step(EMPTY, scope)
