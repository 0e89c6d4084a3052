"""What somebody may do to a record, and what the verifier says: which entry is at fault, and why.

Without the key: every flipped byte, deleted, swapped, repeated or foreign entry, every truncation. With the key: what
the fold refuses. And what nobody can see who holds no head of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from itertools import combinations, pairwise
from typing import Any

import pytest

import c2sp_reader
import ledger_golden
from dpledger.accounting.composition import LaplaceLaw, Repeated
from dpledger.accounting.guarantees import ApproxDP, PrivacyFailure, PureDP
from dpledger.errors import DpledgerError, VerificationError
from dpledger.ledger.entries.bodies import (
    Aborted,
    Audited,
    Body,
    Committed,
    Heartbeat,
    LedgerOpened,
    Lost,
    Progress,
    Refused,
    Reserved,
    ScopeOpened,
    Snapshot,
    Started,
)
from dpledger.ledger.entries.members import LevelCharge, RefutedPoint, Step
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.verifying import bundle, verification
from dpledger.ledger.verifying.verification import Verified
from dpledger.relations import Relation
from ledger_forger import forged, head_of, signed_head
from ledger_mechanisms import laplace

pytestmark = pytest.mark.sliced

KEY = ledger_golden.KEY
GOLDEN = tuple(ledger_golden.build().entries())
BODIES = tuple(entry.body for entry in GOLDEN)
OPENED = next(body for body in BODIES if isinstance(body, LedgerOpened))
LEAVES = tuple(bundle.read(ledger_golden.DATA)[0])
HEAD = bundle.read(ledger_golden.DATA)[1]


def verify(leaves: Iterable[bytes], head: bytes = HEAD, key: SigningKey = KEY) -> Verified:
    return verification.verify(leaves, head, key.public)


def rejected(leaves: Sequence[bytes], head: bytes = HEAD) -> VerificationError:
    with pytest.raises(VerificationError) as refusal:
        verify(leaves, head)
    return refusal.value


# ---- without the key ------------------------------------------------------------------------------------------------


def flipped(data: bytes, place: int) -> bytes:
    """One bit of one byte is another; which bit depends on the place."""
    return data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]


def assert_every_flip_is_named(leaves: Sequence[bytes], head: bytes, places: range) -> None:
    data = b"".join(leaf + b"\n" for leaf in leaves)
    lines = [number for number, leaf in enumerate(leaves) for _ in range(len(leaf) + 1)]
    for place in places:
        with pytest.raises(VerificationError) as refusal:
            verify(bundle.lines(BytesIO(flipped(data, place))), head)
        assert refusal.value.index == lines[place], (place, str(refusal.value))


def test_every_flipped_byte_of_a_small_ledger_is_named() -> None:
    leaves = LEAVES[:3]
    assert_every_flip_is_named(leaves, signed_head(leaves, KEY), range(sum(map(len, leaves)) + 3))


def test_flipped_bytes_of_the_golden_ledger_are_named() -> None:
    assert_every_flip_is_named(LEAVES, HEAD, range(0, sum(map(len, LEAVES)) + len(LEAVES), 61))


@pytest.mark.slow
def test_every_flipped_byte_of_the_golden_ledger_is_named() -> None:
    assert_every_flip_is_named(LEAVES, HEAD, range(sum(map(len, LEAVES)) + len(LEAVES)))


def test_every_flipped_byte_of_the_head_is_rejected() -> None:
    for place in range(len(HEAD)):
        assert rejected(LEAVES, flipped(HEAD, place)).reason


def test_every_truncation_of_the_head_is_rejected() -> None:
    for size in range(len(HEAD)):
        assert rejected(LEAVES, HEAD[:size]).reason


def test_every_deletion_is_named() -> None:
    for index in range(len(LEAVES)):
        assert rejected(LEAVES[:index] + LEAVES[index + 1 :]).index == index


def test_every_deletion_that_is_made_up_for_is_named() -> None:
    """One entry is cut out, another put at the end, so that the number is right."""
    for index in range(len(LEAVES) - 1):
        assert rejected((*LEAVES[:index], *LEAVES[index + 1 :], LEAVES[0])).index == index


def test_every_swap_is_named() -> None:
    for left, right in combinations(range(len(LEAVES)), 2):
        leaves = list(LEAVES)
        leaves[left], leaves[right] = leaves[right], leaves[left]
        assert rejected(leaves).index == left


def test_every_truncation_is_named() -> None:
    for size in range(len(LEAVES)):
        assert rejected(LEAVES[:size]).index == size


def test_every_truncation_of_the_file_is_named() -> None:
    data = b"".join(leaf + b"\n" for leaf in LEAVES)
    for size in range(0, len(data), 7):
        with pytest.raises(VerificationError) as refusal:
            verify(bundle.lines(BytesIO(data[:size])))
        assert refusal.value.index == data[:size].count(b"\n")


def test_every_repetition_is_named() -> None:
    for index in range(len(LEAVES)):
        assert rejected((*LEAVES[: index + 1], *LEAVES[index:])).index == index + 1


def test_another_key_is_refused() -> None:
    other = SigningKey.from_seed(ledger_golden.LEDGER_ID, bytes(32))
    with pytest.raises(VerificationError):
        verify(LEAVES, HEAD, other)


def test_an_entry_of_another_ledger_is_named() -> None:
    other = SigningKey.from_seed("example.org/other/" + "0" * 32, bytes(range(32)))
    foreign, _ = forged([replace(OPENED, public_key=other.public.text), *BODIES[1:]], other)
    for index in range(len(LEAVES)):
        assert rejected((*LEAVES[:index], foreign[index], *LEAVES[index + 1 :])).index == index


def test_entries_of_another_ledger_are_refused_even_under_our_key() -> None:
    """The same key material under another name: what was signed there says nothing here."""
    leaves, _ = forged(BODIES, KEY)
    other = SigningKey.from_seed("example.org/other/" + "0" * 32, bytes(range(32)))
    stolen, _ = forged(BODIES, other)
    mixed = [*leaves[:5], stolen[5], *leaves[6:]]
    assert rejected(mixed, signed_head(mixed, KEY)).index == 5


# ---- heads that the verifier remembers ------------------------------------------------------------------------------


def test_a_rollback_to_an_older_genuine_head_is_seen_only_by_who_remembers() -> None:
    leaves = LEAVES[:10]
    older = signed_head(leaves, KEY)
    assert verify(leaves, older).head.size == 10  # undetectable: nothing here says that more exists
    remembered = head_of(LEAVES[:20], KEY)
    with pytest.raises(VerificationError, match="remembered head covers 20") as refusal:
        verification.verify(leaves, older, KEY.public, since=[remembered])
    assert refusal.value.index == 10


def test_a_history_rewritten_with_the_stolen_key_is_seen_only_by_who_remembers() -> None:
    leaves, head = forged([*BODIES[:24], Heartbeat(), *BODIES[24:]], KEY)
    assert verify(leaves, head).head.size == len(LEAVES) + 1  # undetectable without a remembered head
    remembered = head_of(LEAVES[:25], KEY)
    with pytest.raises(VerificationError, match="remembered head of 25") as refusal:
        verification.verify(leaves, head, KEY.public, since=[remembered])
    assert refusal.value.index == 24


def test_every_genuine_older_head_is_consistent_and_counts_as_witnessed() -> None:
    heads = [head_of(LEAVES[:size], KEY) for size in range(len(LEAVES) + 1)]
    for remembered in heads[:-1]:
        verified = verification.verify(LEAVES, HEAD, KEY.public, since=[remembered])
        assert (verified.witnessed, verified.is_own) == (remembered.size, False)
        assert verified.unwitnessed == len(LEAVES) - remembered.size
    assert verification.verify_quick(LEAVES, HEAD, KEY.public, since=heads).witnessed == len(LEAVES) - 1


def test_a_head_as_new_as_the_record_shows_no_more_than_its_own() -> None:
    for verify_with in (verification.verify, verification.verify_quick):
        verified = verify_with(LEAVES, HEAD, KEY.public, since=[head_of(LEAVES, KEY)])
        assert (verified.witnessed, verified.is_own) == (0, True)
        assert verified.unwitnessed == len(LEAVES)


def test_of_two_remembered_heads_of_one_size_both_are_asked() -> None:
    good = head_of(LEAVES[:9], KEY)
    bad = replace(good, root=bytes(32))
    for since in ([good, bad], [bad, good]):
        with pytest.raises(VerificationError, match="remembered"):
            verification.verify(LEAVES, HEAD, KEY.public, since=since)


def test_a_remembered_head_of_another_ledger_is_refused() -> None:
    other = replace(head_of(LEAVES[:9], KEY), origin="example.org/other/" + "0" * 32)
    with pytest.raises(VerificationError, match="another ledger"):
        verification.verify(LEAVES, HEAD, KEY.public, since=[other])


def test_progress_is_told_entry_by_entry() -> None:
    told: list[int] = []
    verification.verify(LEAVES, HEAD, KEY.public, advance=told.append)
    assert told == [1] * len(LEAVES)


def test_quick_reads_no_entry() -> None:
    """Quick says that these are the signed bytes; what they say, it does not ask."""
    leaves, head = forged([*BODIES[:2], BODIES[1]], KEY)
    assert verification.verify_quick(leaves, head, KEY.public).mode == "quick"
    assert rejected(leaves, head).index == 2


# ---- with the key ---------------------------------------------------------------------------------------------------


def at(kind: type[Body], number: int = 0) -> int:
    """The index of the golden entry of this kind."""
    return [index for index, body in enumerate(BODIES) if isinstance(body, kind)][number]


def changed(index: int, **members: object) -> list[Body]:
    """The golden bodies with one member of one entry different, without the snapshot that would give it away."""
    bodies: list[Any] = list(BODIES)
    bodies[index] = replace(bodies[index], **members)
    return bodies


def inserted(index: int, body: Body) -> list[Body]:
    return [*BODIES[:index], body, *BODIES[index:]]


def less(levels: tuple[LevelCharge, ...], coordinate: str, factor: str = "0.5") -> tuple[LevelCharge, ...]:
    """The levels with one coordinate of the first charged less."""
    first, *rest = levels
    amounts = {**first.amounts, coordinate: first.amounts[coordinate] * type(first.amounts[coordinate])(factor)}
    return (LevelCharge(first.scope, amounts), *rest)


RESERVED, COMMITTED, REFUSED, AUDITED = at(Reserved), at(Committed), at(Refused), at(Audited)
REFUSAL = next(body for body in BODIES if isinstance(body, Refused))
STREAM = next(i for i, body in enumerate(BODIES) if isinstance(body, Committed) and body.rule == "ex_post")
TRAINING = next(i for i, body in enumerate(BODIES) if isinstance(body, Committed) and body.rule == "steps")
TWO_LEVELS = at(Reserved, 1)


def reserved(index: int) -> Reserved:
    body = BODIES[index]
    assert isinstance(body, Reserved)
    return body


def committed(index: int) -> Committed:
    body = BODIES[index]
    assert isinstance(body, Committed)
    return body


def steps_done(done: int) -> Repeated:
    """The training plan with another number of steps done."""
    parts = committed(TRAINING).parts
    assert isinstance(parts, Repeated)
    return replace(parts, done=done)


def moved(path: tuple[Step, ...], by: int) -> tuple[Step, ...]:
    return tuple(Step(level.scope, level.index + by) for level in path)


GRANTED = at(Progress, 1)  # four steps of the plan
GRANT: Any = BODIES[GRANTED]
OLDER, NEWER, THIRD = GRANT.redeem, "ab" * 32, "cd" * 32


def granted(redeem: str, *, replaces: str | None = None, upto: int = 6) -> Progress:
    """The grant after the one that took the golden run over."""
    return Progress(moved(GRANT.path, 2), GRANT.charge, redeem, upto, replaces)


def resumed(then: Body) -> list[Body]:
    """The golden run taken over after four steps, by a process that is granted none yet, and what follows."""
    taken = replace(GRANT, redeem=NEWER, replaces=OLDER, path=moved(GRANT.path, 1))
    return [*BODIES[: GRANTED + 1], taken, then]


WITNESSES = (
    "witness w remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2 https://w.example/\n"
    f"witness v {c2sp_reader.cosigner_key('v.example', bytes(32))}\nquorum w\n"
)

FORGERIES: dict[str, tuple[list[Body], int, str]] = {
    "charged less than its parts cost": (
        changed(RESERVED, levels=less(reserved(RESERVED).levels, "pure")),
        RESERVED,
        "charged less",
    ),
    "charged less in the mixed account": (
        changed(RESERVED, levels=less(reserved(RESERVED).levels, "mixed_rdp_0", "0.999")),
        RESERVED,
        "charged less",
    ),
    "charged in one level only": (
        changed(TWO_LEVELS, levels=reserved(TWO_LEVELS).levels[:1]),
        TWO_LEVELS,
        "levels are not those of the path",
    ),
    "charged in a coordinate that the filter lacks": (
        changed(
            TWO_LEVELS,
            levels=(reserved(TWO_LEVELS).levels[0], LevelCharge("ward-7", {"pure": Decimal(1), "gold": Decimal(1)})),
        ),
        TWO_LEVELS,
        "does not have",
    ),
    "a claim that the parts do not keep": (
        changed(RESERVED, claim=PureDP("0.2")),
        RESERVED,
        "claimed",
    ),
    "causes of failure that do not add up to the claim's delta": (
        changed(RESERVED, claim=ApproxDP("0.25", "0.001"), failures=(PrivacyFailure("0.0001", "numeric"),)),
        RESERVED,
        "failures",
    ),
    "parts that cost more than was charged": (
        changed(RESERVED, parts=LaplaceLaw("0.26"), claim=PureDP("0.26")),
        RESERVED,
        "charged less",
    ),
    "refunded beyond the rule": (
        changed(STREAM, levels=less(committed(STREAM).levels, "mixed_pure_0")),
        STREAM,
        "refunded beyond the rule",
    ),
    "steps that ran are given back": (
        changed(TRAINING, levels=less(committed(TRAINING).levels, "mixed_rdp_1", "0.9")),
        TRAINING,
        "refunded beyond the rule",
    ),
    "fewer steps than were granted": (
        changed(TRAINING, parts=steps_done(5)),
        TRAINING,
        "than were granted",
    ),
    "settled above what was reserved": (
        changed(COMMITTED, levels=less(committed(COMMITTED).levels, "pure", "2")),
        COMMITTED,
        "above what was reserved",
    ),
    "a refund without an outcome": (
        changed(COMMITTED, levels=less(committed(COMMITTED).levels, "pure")),
        COMMITTED,
        "refunded beyond the rule",
    ),
    "the wrong rule is named": (changed(STREAM, rule="steps"), STREAM, "by the rule steps"),
    "other parts at the end than at the beginning": (
        changed(COMMITTED, parts=LaplaceLaw("0.1")),
        COMMITTED,
        "not those that were reserved",
    ),
    "committed by another redeem": (changed(COMMITTED, redeem="ab" * 32), COMMITTED, "not by the redeem"),
    "committed twice": (inserted(COMMITTED + 1, BODIES[COMMITTED]), COMMITTED + 1, "not open"),
    "an outcome where the run left its guarantee": (
        changed(STREAM, outside_guarantee=True),
        STREAM,
        "refunded beyond the rule",
    ),
    "a digest in a scope that keeps values": (changed(COMMITTED, digest="ab" * 32), COMMITTED, "keeps none"),
    "committed in the path of another scope": (
        changed(COMMITTED, path=(Step("ward-7", 1),)),
        COMMITTED,
        "not that of the charge",
    ),
    "a charge used twice": (
        inserted(COMMITTED + 1, replace(reserved(RESERVED), key="new", path=(Step("clinic", 3),))),
        COMMITTED + 1,
        "charge was used before",
    ),
    "a key used twice": (
        inserted(COMMITTED + 1, replace(reserved(RESERVED), charge="ab" * 16, path=(Step("clinic", 3),))),
        COMMITTED + 1,
        "key was used before",
    ),
    "a gap in the count of a scope": (
        changed(RESERVED, path=moved(reserved(RESERVED).path, 1)),
        RESERVED,
        "index 2, expected 1",
    ),
    "the count of a scope repeated": (
        changed(COMMITTED, path=reserved(RESERVED).path),
        COMMITTED,
        "index 1, expected 2",
    ),
    "levels out of order": (
        changed(TWO_LEVELS, path=reserved(TWO_LEVELS).path[::-1]),
        TWO_LEVELS,
        "path",
    ),
    "a path that leaves out the parent": (
        changed(TWO_LEVELS, path=reserved(TWO_LEVELS).path[1:]),
        TWO_LEVELS,
        "path is not that of one of its scopes",
    ),
    "a scope that was never opened": (
        changed(RESERVED, path=(Step("nowhere", 0),)),
        RESERVED,
        "never opened",
    ),
    "a scope opened twice": (inserted(3, BODIES[1]), 3, "opened twice"),
    "a scope that promises less than its filter allows": (
        changed(1, budget=ApproxDP("2.9", "0.000001")),
        1,
        "claimed",
    ),
    "a child with another unit than its parent": (
        changed(2, unit=replace(BODIES[1].unit, max_contributions=2)),  # type: ignore[union-attr]
        2,
        "another relation or unit",
    ),
    "given back after it was started": (
        inserted(RESERVED + 1, Aborted(path=(Step("clinic", 2),), charge=reserved(RESERVED).charge)),
        RESERVED + 1,
        "never given back",
    ),
    "started twice": (
        inserted(RESERVED + 1, Started(path=(Step("clinic", 2),), charge=reserved(RESERVED).charge, redeem="ab" * 32)),
        RESERVED + 1,
        "started already",
    ),
    "steps granted to what is no training": (
        inserted(
            RESERVED + 1,
            Progress(
                path=(Step("clinic", 2),),
                charge=reserved(RESERVED).charge,
                redeem=reserved(RESERVED).redeem or "",
                upto=1,
            ),
        ),
        RESERVED + 1,
        "only training",
    ),
    "steps granted backwards": (changed(at(Progress, 1), upto=2), at(Progress, 1), "forwards"),
    "an older generation that is granted again": (
        resumed(granted(OLDER)),
        GRANTED + 2,
        "not by the redeem in force",
    ),
    "an older generation that takes the run over again": (
        resumed(granted(OLDER, replaces=NEWER)),
        GRANTED + 2,
        "never comes back",
    ),
    "two that take the same generation over": (
        resumed(granted(THIRD, replaces=OLDER)),
        GRANTED + 2,
        "not by the redeem in force",
    ),
    "a run that takes itself over": (
        resumed(granted(NEWER, replaces=NEWER)),
        GRANTED + 2,
        "from itself",
    ),
    "one that takes over and goes back": (
        resumed(granted(THIRD, replaces=NEWER, upto=3)),
        GRANTED + 2,
        "forwards",
    ),
    "no more steps, and nobody taken over": (
        resumed(granted(NEWER, upto=4)),
        GRANTED + 2,
        "forwards",
    ),
    "settled by the generation before": (
        resumed(replace(committed(TRAINING), redeem=OLDER, path=moved(GRANT.path, 2), parts=steps_done(4))),
        GRANTED + 2,
        "not by the redeem in force",
    ),
    "more steps granted than planned": (changed(at(Progress, 1), upto=41), at(Progress, 1), "at most those planned"),
    "more steps than the plan has": (
        changed(at(Progress) - 1, steps=41),
        at(Progress) - 1,
        "not those of a training plan",
    ),
    "an outcome before it ran": (
        changed(at(Progress) - 1, parts=steps_done(6)),
        at(Progress) - 1,
        "before they ran",
    ),
    "a note about a charge that is over": (
        inserted(COMMITTED + 1, Lost(path=(Step("clinic", 3),), charge=reserved(RESERVED).charge, note="gone")),
        COMMITTED + 1,
        "not open",
    ),
    "a request that is the digest of something else": (changed(RESERVED, request="ab" * 32), RESERVED, "request"),
    "another mechanism under the digest of what was asked": (
        changed(RESERVED, mechanism=replace(reserved(RESERVED).mechanism, kind="gaussian")),
        RESERVED,
        "request",
    ),
    "another form under the digest of what was asked": (changed(RESERVED, form="interaction"), RESERVED, "request"),
    "a refusal of what would have fit": (changed(REFUSED, asked={"pure": Decimal("0.5")}), REFUSED, "admitted it"),
    "a refusal of nothing": (changed(REFUSED, asked={"pure": Decimal(0)}), REFUSED, "admitted it"),
    "a refusal in accounts that its filter does not keep": (
        changed(REFUSED, asked={"rho": Decimal(9)}),
        REFUSED,
        "expected the accounts pure",
    ),
    "the same refusal twice": (
        inserted(REFUSED + 1, replace(REFUSAL, path=moved(REFUSAL.path, 1))),
        REFUSED + 1,
        "recorded before",
    ),
    "a refusal under a key that was used": (changed(REFUSED, key="mean-age"), REFUSED, "key was used before"),
    "an audit that names a violation without one": (changed(AUDITED, verdict="violation"), AUDITED, "verdict"),
    "an audit that hides a violation": (
        changed(AUDITED, epsilon_lower="0.26", refuted=None),
        AUDITED,
        "verdict",
    ),
    "an audit in which a point fell and nothing follows": (
        changed(AUDITED, refuted=RefutedPoint("3", "0.01", "3.1")),
        AUDITED,
        "verdict",
    ),
    "an audit in which the point that fell stands": (
        changed(AUDITED, verdict="violation", refuted=RefutedPoint("0.1", "0.01", "0.1")),
        AUDITED,
        "a bound above the epsilon that fell",
    ),
    "an audit of more than its runs can show": (
        changed(AUDITED, verdict="violation", epsilon_lower="10.4158"),  # ln(100000 / 2.99573...) is 10.4157...
        AUDITED,
        "can show",
    ),
    "an audit without runs": (changed(AUDITED, trials_left=0, trials_right=0), AUDITED, "can show"),
    "an audit at delta 1": (changed(AUDITED, delta="1"), AUDITED, "delta"),
    "an audit under another relation than its scope's": (
        changed(AUDITED, relation=Relation.REPLACE_ONE),
        AUDITED,
        "relation of scope clinic",
    ),
    "an audit about a charge that is not there": (changed(AUDITED, charge="ab" * 16), AUDITED, "there is no charge"),
    "an audit about a charge of other scopes": (
        changed(AUDITED, charge=reserved(RESERVED).charge, path=(Step("ward-7", 4),)),
        AUDITED,
        "about scopes that the charge is charged to",
    ),
    "a refusal that shows other numbers": (changed(at(Refused), left={"pure": "9"}), at(Refused), "left"),
    "a refusal by a level that was not asked": (
        changed(at(Refused), level="nowhere"),
        at(Refused),
        "not one of the path",
    ),
    "a snapshot of another state": (changed(at(Snapshot), state="ab" * 32), at(Snapshot), "snapshot"),
    "something after the end": ([*BODIES, Heartbeat()], len(BODIES), "nothing may follow"),
    "no beginning": (list(BODIES[1:]), 0, "not ledger_opened"),
    "two beginnings": (inserted(1, OPENED), 1, "second ledger_opened"),
    "another signing key is named": (
        changed(0, public_key=SigningKey.from_seed(KEY.public.name, bytes(32)).public.text),
        0,
        "the key in force is",
    ),
    "the recovery key is the signing key": (changed(0, recovery_key=KEY.public.text), 0, "recovery key"),
    "witnesses that are asked after the fact": (changed(0, witness="after"), 0, "newer than this verifier"),
    "witnesses without a policy": (changed(0, witness="before"), 0, "without a policy"),
    "a policy without witnesses": (changed(0, witness_policy=WITNESSES), 0, "none with one"),
    "a policy in another text": (changed(0, witness="before", witness_policy=WITNESSES + "\n"), 0, "the one text"),
    "a policy of no witness": (changed(0, witness="before", witness_policy="quorum w\n"), 0, "an earlier line"),
    "a policy whose quorums may part": (
        changed(0, witness="before", witness_policy=WITNESSES.replace("quorum w", "group g any w v\nquorum g")),
        0,
        "in common",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_with_the_real_key_is_refused_by_the_fold(name: str) -> None:
    bodies, index, reason = FORGERIES[name]
    leaves, head = forged(bodies, KEY)
    error = rejected(leaves, head)
    assert error.index == index
    assert reason in error.reason


@pytest.mark.parametrize(
    "then", [granted(NEWER), granted(THIRD, replaces=NEWER), granted(THIRD, replaces=NEWER, upto=4)]
)
def test_a_run_that_goes_on_in_another_process_verifies(then: Body) -> None:
    """So the refusals of resumed runs above are about who goes on."""
    leaves, head = forged(resumed(then), KEY)
    (charge,) = verify(leaves, head).state.open.values()
    assert (charge.redeem, charge.generation) == (then.redeem, len(charge.replaced))  # type: ignore[union-attr]


def test_a_ledger_that_names_witnesses_verifies() -> None:
    """So the refusals of their policies above are about the policies."""
    leaves, head = forged(changed(0, witness="before", witness_policy=WITNESSES)[:2], KEY)
    opened = verify(leaves, head).state.opened
    assert opened is not None
    assert opened.witness_policy == WITNESSES


def test_the_forger_alone_changes_nothing() -> None:
    """The golden bodies under the forger's hand verify: so each refusal above is about the change."""
    leaves, head = forged(BODIES, KEY)
    assert verify(leaves, head).state == ledger_golden.build().state


def prefix_over_budget(spend: Callable[[int], str]) -> list[Body]:
    """A scope of epsilon 1 and charges, each of which is right by itself."""
    book = ledger_golden.begin()
    scope = book.scope("small", unit="patient", relation="add_remove", budget=PureDP(1))
    bodies = [entry.body for entry in book.entries()]
    for number in range(3):
        other = ledger_golden.begin()
        other.scope("small", unit="patient", relation="add_remove", budget=PureDP(100))
        other.scope("small").release(laplace(spend(number)), 0, key=f"release-{number}")
        *_, hold, done = (entry.body for entry in other.entries())
        assert isinstance(hold, Reserved)
        assert isinstance(done, Committed)
        charge = f"{number:032x}"
        bodies += [
            replace(hold, charge=charge, path=(Step("small", 2 * number + 1),)),
            replace(done, charge=charge, path=(Step("small", 2 * number + 2),)),
        ]
    assert scope.name == "small"
    return bodies


def test_a_prefix_over_budget_is_refused_at_the_charge_that_passes_it() -> None:
    leaves, head = forged(prefix_over_budget(lambda _: "0.4"), KEY)
    error = rejected(leaves, head)
    assert error.index == 6
    assert "does not admit" in error.reason
    leaves, head = forged(prefix_over_budget(lambda _: "0.3"), KEY)
    verify(leaves, head)


def test_nothing_begins_in_a_closed_scope_but_what_is_open_may_end() -> None:
    book = ledger_golden.begin()
    scope = book.scope("ward", unit="patient", relation="add_remove", budget=PureDP(1))
    hold = scope.reserve(laplace("0.1"), key="open")
    scope.end("over")
    hold.abort()
    bodies = [entry.body for entry in book.entries()]
    late = replace(
        reserved(RESERVED), path=(Step("ward", 4),), levels=(LevelCharge("ward", {"pure": Decimal("0.25")}),)
    )
    leaves, head = forged([*bodies, late], KEY)
    error = rejected(leaves, head)
    assert (error.index, error.reason) == (len(bodies), "the scope is closed")
    leaves, head = forged(bodies, KEY)
    verify(leaves, head)


def test_a_forged_scope_with_unsound_constants_cannot_even_be_read() -> None:
    opened = next(body for body in BODIES if isinstance(body, ScopeOpened))
    rule: Any = opened.filter
    with pytest.raises(DpledgerError, match="offset"):
        replace(rule, offset="0")


def test_parents_come_before_children_in_time() -> None:
    for earlier, later in pairwise(GOLDEN):
        assert later.index == earlier.index + 1
