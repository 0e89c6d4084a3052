"""Verified records for the tests of reports, made in memory by the gate itself: no store, no clock, no randomness.

`sample()` holds something of everything; `long()` ten thousand entries; `hostile()` text that tries to break out.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import Any, Literal

from dpledger import decimals
from dpledger.accounting import filters
from dpledger.accounting.composition import Composition, Repeated, SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.guarantees import ApproxDP, Guarantee, PureDP
from dpledger.ledger.entries.bodies import (
    FORMAT,
    TIMELESS,
    Aborted,
    Audited,
    Body,
    Declared,
    LedgerOpened,
    Lost,
    Progress,
    Reported,
    ScopeOpened,
)
from dpledger.ledger.entries.entry import Entry, format_entry
from dpledger.ledger.entries.members import MechanismNote, Power, Step, UnitNote
from dpledger.ledger.rules import course, gate
from dpledger.ledger.rules.capability import Redeem
from dpledger.ledger.rules.gate import Admitted, RefusedRequest
from dpledger.ledger.rules.requested import Request
from dpledger.ledger.rules.transitions import EMPTY, next_steps, step
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.verifying.verification import Verified
from dpledger.mechanisms.numeric.gaussian import Gaussian
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.mechanisms.protocol import Described
from dpledger.mechanisms.threshold.sparse_vector import SparseVector
from dpledger.mechanisms.training.dp_sgd import DPSGD
from dpledger.relations import Relation, Unit
from dpledger.reports import Report, report

__all__ = [
    "HOSTILE",
    "Record",
    "audit",
    "crowded",
    "hostile",
    "long",
    "report_on_hostile",
    "report_on_sample",
    "sample",
]

LEDGER = "clinic-" + "5a" * 16
KEY = SigningKey.from_seed(LEDGER, bytes(range(32))).public
RECOVERY = SigningKey.from_seed(LEDGER, bytes(range(32, 64))).public
TIME = "2026-11-21T10:00:00Z"
LIBRARY = "dpledger 0.1.0"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _redeem(charge: str) -> Redeem:
    return Redeem(bytes.fromhex(charge))


class Record:
    """A ledger's entries and state, one body after another, without bytes or signatures."""

    def __init__(self) -> None:
        self.state = EMPTY
        self.entries: list[Entry] = []
        self._charges = 0
        self.add(LedgerOpened(format=FORMAT, public_key=KEY.text, recovery_key=RECOVERY.text, witness="off"))

    def add(self, body: Body) -> Entry:
        """Append a body that the rules allow."""
        entry = Entry(
            ledger=LEDGER,
            index=len(self.entries),
            previous="0" * 64,
            body=body,
            time=None if isinstance(body, TIMELESS) else TIME,
        )
        self.state = step(self.state, body)
        self.entries.append(entry)
        return entry

    def scope(
        self,
        name: str,
        budget: Guarantee,
        *,
        unit: Unit | None = None,
        relation: Relation = Relation.ADD_REMOVE,
        dataset: str | None = None,
    ) -> None:
        """Open a scope."""
        protected = unit or Unit("patient", 1)
        self.add(
            ScopeOpened(
                path=(Step(name, 0),),
                unit=UnitNote(protected.name, protected.max_contributions),
                relation=relation,
                budget=budget,
                filter=filters.opened_by(budget),
                keep="value",
                dataset=dataset,
            )
        )

    def ask(self, scope: str, mechanism: Described, *, library: str = LIBRARY, started: bool = True) -> str:
        """Ask for a release: the charge if it was admitted, else an empty text. Both are recorded."""
        self._charges += 1
        rules = self.state.scopes[scope]
        ready = mechanism.under(rules.relation, rules.unit)
        charge = f"{self._charges:032x}"
        steps = getattr(ready, "steps", None) if isinstance(ready, DPSGD) else None
        form: Literal["release", "interaction", "training"] = "release"
        if steps is not None or isinstance(ready, SparseVector):
            form = "interaction" if steps is None else "training"
        request = Request(
            scope=scope,
            key=f"key-{self._charges}",
            charge=charge,
            mechanism=MechanismNote(ready.kind, ready.parameters(), library),
            relation=rules.relation,
            unit=rules.unit,
            claim=ready.claim(),
            parts=ready.parts(),
            failures=ready.failures(),
            form=form,
            steps=steps,
            redeem=_redeem(charge).digest if started else None,
            tail_delta=decimals.ZERO,
        )
        decision = gate.decide(self.state, request, None)
        assert isinstance(decision, Admitted | RefusedRequest)
        self.add(decision.body)
        return charge if isinstance(decision, Admitted) else ""

    def settle(self, charge: str, parts: Composition | None = None, **settled: Any) -> None:
        """End a charge, with the outcomes in `parts`."""
        held = self.state.open[charge]
        final = held.parts if parts is None else parts
        self.add(course.settle(self.state, held, final, redeem=_redeem(charge), **settled))

    def release(self, scope: str, mechanism: Described, **options: Any) -> None:
        """Ask, and settle at once if it was admitted."""
        charge = self.ask(scope, mechanism, **options)
        if charge:
            self.settle(charge)

    def train(self, scope: str, mechanism: DPSGD, done: int) -> None:
        """A training run that stops after `done` steps."""
        charge = self.ask(scope, mechanism)
        path = next_steps(self.state, (scope,))
        self.add(Progress(path=path, charge=charge, redeem=_redeem(charge).digest, upto=done))
        plan = self.state.open[charge].parts
        assert isinstance(plan, Repeated)
        self.settle(charge, Repeated(plan.of, times=plan.times, done=done))

    def watch(self, scope: str, mechanism: SparseVector, epochs: tuple[int, ...]) -> None:
        """A sparse vector interaction that closed `epochs` and 7 tests of the next."""
        charge = self.ask(scope, mechanism)
        plan = self.state.open[charge].parts
        assert isinstance(plan, SparseVectorLaw)
        outcome = SparseVectorOutcome(closed_epochs=epochs, open_epoch=7, halted=False)
        self.settle(charge, dataclasses.replace(plan, outcome=outcome))

    def abort(self, scope: str, mechanism: Described) -> None:
        """A charge that never started."""
        charge = self.ask(scope, mechanism, started=False)
        self.add(Aborted(path=next_steps(self.state, (scope,)), charge=charge))

    def lose(self, scope: str, charge: str, note: str) -> None:
        """A note that a charge will not be settled."""
        self.add(Lost(path=next_steps(self.state, (scope,)), charge=charge, note=note))

    def declare(self, item: str, text: str, by: str, *, scope: str = "", envelope: str | None = None) -> None:
        """A declaration."""
        path = next_steps(self.state, (scope,)) if scope else ()
        self.add(Declared(item=item, text=text, by=by, path=path, envelope=envelope))

    def verified(self, *, witnessed: int = 0) -> Verified:
        """The record as a verification returns it."""
        root = hashlib.sha256(repr([format_entry(entry) for entry in self.entries]).encode()).digest()
        head = Checkpoint(origin=LEDGER, size=len(self.entries), root=root)
        return Verified(
            mode="full", head=head, key=KEY, witnessed=witnessed, entries=tuple(self.entries), state=self.state
        )


def audit(
    of: str | Described,
    claim: Guarantee,
    lower: str,
    verdict: Literal["violation", "not_refuted"],
    *,
    delta: str = "0",
    event: str = "the value is above 3.5; likelier on the left data",
) -> Audited:
    """The result of an audit, of a mechanism as it runs in a scope of patients, or of what is called so."""
    if isinstance(of, str):
        note = MechanismNote(of, {"sensitivity": "1", "epsilon": "0.5"}, LIBRARY)
    else:
        ready = of.under(Relation.ADD_REMOVE, Unit("patient", 1))
        note = MechanismNote(ready.kind, ready.parameters(), LIBRARY)
    return Audited(
        mechanism=note,
        claim=claim,
        relation=Relation.ADD_REMOVE,
        verdict=verdict,
        epsilon_lower=lower,
        delta=delta,
        confidence="0.95",
        trials_left=500_000,
        trials_right=500_000,
        event=event,
        method="threshold",
        power=Power("0.62", "0.8"),
        seed=7,
    )


TRAINING = DPSGD(rate="0.15", steps=99, noise_multiplier=4, clip_norm=1, dimension=31, expected_batch_size=85)


def sample() -> Record:
    """Something of everything: two scopes, refunds, refusals, open and lost charges, audits of both verdicts."""
    record = Record()
    record.declare("product_name", "Breast cancer screening, statistics for the regional registry", "A. Lindqvist")
    record.declare(
        "intended_use", "Yearly figures on screening quality.\nNo decision about one person.", "A. Lindqvist"
    )
    record.declare(
        "decision_owner", "Dr. M. Okafor, head of data protection", "A. Lindqvist", envelope="eyJwYXlsb2FkIjoiIn0"
    )
    record.scope("patients-2026", ApproxDP(3, "1e-6"), dataset="screening visits of 2026, one row a patient")
    record.declare("population_size", "569", "A. Lindqvist", scope="patients-2026")
    record.declare("output_recipients", "The public, once a year", "A. Lindqvist")
    record.declare("output_recipients", "The regional registry and the public", "A. Lindqvist")
    for _ in range(5):
        record.release("patients-2026", Laplace(sensitivity=1, epsilon="0.05", justification="one patient is one row"))
    record.release("patients-2026", Gaussian(sensitivity=1, noise_multiplier=20))
    record.watch("patients-2026", SparseVector(epsilon="0.4", cutoff=4, threshold=20, sensitivity=1), (12,))
    record.train("patients-2026", TRAINING, done=80)
    record.abort("patients-2026", Laplace(sensitivity=1, epsilon="0.05"))
    record.add(audit("laplace", PureDP("0.5"), "0.4127", "not_refuted"))
    record.add(audit("laplace_half_noise", PureDP("0.5"), "0.9314", "violation"))
    record.add(Reported(digest=_digest("an earlier report"), schema="dpledger.report.v1"))
    for epsilon in ("2.5", "2.5", "3"):
        record.ask("patients-2026", Laplace(sensitivity=1, epsilon=epsilon))
    lost = record.ask("patients-2026", Laplace(sensitivity=1, epsilon="0.02"))
    record.lose("patients-2026", lost, "the worker was killed")
    record.scope("staff-survey", PureDP("0.5"), unit=Unit("household", 4), relation=Relation.REPLACE_ONE)
    record.release("staff-survey", Laplace(sensitivity=4, epsilon="0.2"), library="survey-tools 2.3 (custom)")
    return record


def long(entries: int = 10_000, *, distinct: bool = False) -> Record:
    """A record of at least that many entries: equal releases, or all of them different."""
    record = Record()
    record.scope("stream", PureDP(100_000))
    number = 0
    while len(record.entries) < entries:
        number += 1
        record.release("stream", Laplace(sensitivity=1, epsilon=f"0.{number:05d}1" if distinct else "0.01"))
    return record


HOSTILE = (
    "</style></title><script>alert(1)</script><img src=x onerror=alert(1)>"
    '"\'><svg onload=alert(1)> {{ 7*7 }} {% raw %} ${7*7} =HYPERLINK("http://evil.example","x") '
    "[x](javascript:alert(1)) ![x](http://evil.example/p.png) <http://evil.example> www.evil.example a@evil.example "
    "`code` *b* _i_ ~s~ # h | cell | $x^2$ &lt; &#x202e; \\ \u0600\ufff9\ue000 \u05d0\u05d1"
)
"""Markup, templates, formulas, links, format and private characters, letters of the other direction: everything that
the wire lets through as text."""


def hostile() -> Record:
    """The sample's kinds of entries with HOSTILE in every text field."""
    record = Record()
    record.scope("patients", ApproxDP(3, "1e-6"), dataset=HOSTILE)
    for item in ("product_name", "intended_use", "own_words"):
        record.declare(item, HOSTILE, HOSTILE, scope="patients", envelope=HOSTILE)
        record.declare(item, HOSTILE, HOSTILE)
    record.release("patients", Laplace(sensitivity=1, epsilon=1, justification=HOSTILE), library=HOSTILE)
    charge = record.ask("patients", Laplace(sensitivity=1, epsilon="0.1", justification=HOSTILE), library=HOSTILE)
    record.settle(charge, warnings=(HOSTILE, HOSTILE), outside_guarantee=True)
    record.ask("patients", Laplace(sensitivity=1, epsilon=9, justification=HOSTILE), library=HOSTILE)
    lost = record.ask("patients", Laplace(sensitivity=1, epsilon="0.1", justification=HOSTILE))
    record.lose("patients", lost, HOSTILE)
    record.add(audit("laplace", PureDP(1), "0.5", "not_refuted", event=HOSTILE))
    return record


def crowded() -> Record:
    """As much as a first page can be asked to hold: many scopes and units, long words, refusals, gaps, every audit."""
    record = Record()
    long = "every visit to one of the nineteen outpatient clinics of the region between 2019 and 2026, " * 3
    record.declare("product_name", long, long)
    for item in ("people", "intended_use", "not_intended_for", "justification", "decision_owner"):
        record.declare(item, long, long)
    record.declare("non_dp_releases", long, long)
    record.declare("invariants", long, long)
    record.declare("trust_model", f"central: {long}", long)
    for number in range(25):
        name, unit = f"scope-with-a-long-name-{number:02d}", Unit(f"person-of-kind-{number}", 12)
        record.scope(name, ApproxDP(1 + number, "1e-6"), unit=unit, dataset=f"{number} {long}")
        record.ask(name, Laplace(sensitivity=12, epsilon="0.5", justification="one a row"))
        record.ask(name, Laplace(sensitivity=12, epsilon=100, justification="one a row"))
    record.scope("unnamed-one", PureDP(1))
    record.scope("unnamed-two", PureDP(1))
    for number in range(8):
        record.release("unnamed-one", Laplace(sensitivity=1, epsilon="0.01"))
        record.add(audit(f"a_mechanism_with_a_long_name_{number}", PureDP(1), "2", "violation"))
    record.add(audit("laplace", PureDP(1), "2", "violation"))
    return record


@functools.cache
def report_on_sample() -> Report:
    """The report on the sample, made once in a process."""
    return report(sample().verified())


@functools.cache
def report_on_hostile() -> Report:
    """The report on the hostile record, made once in a process."""
    return report(hostile().verified())
