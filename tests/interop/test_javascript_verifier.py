"""The verifier in JavaScript and the one in Python say the same: of every vector, of every byte of a record that is
changed, and of records that somebody with the key wrote against the rules.

Where a price or a claim needs the engine, the one in JavaScript accepts what it cannot judge, and says so at that
entry; nothing else may pass that Python refuses.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ledger_golden
import ledger_vectors
from dpledger.cli import app
from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.entries.entry import entry_of
from dpledger.ledger.signed import envelope, merkle, wire
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.verifying import bundle, verification
from golden import content_of
from javascript_verifier import CLI, Verdict, bundle as case_of, data, judged, node
from ledger_forger import forged_payloads, signed_head

pytestmark = pytest.mark.sliced

KEY = ledger_golden.KEY
LEAVES = tuple(bundle.read(ledger_golden.DATA)[0])
HEAD = bundle.read(ledger_golden.DATA)[1]
TEXT = KEY.public.text


def python_says(content: bytes, head: bytes, key: SigningKey = KEY) -> tuple[bool, int | None]:
    try:
        verification.verify(bundle.lines(BytesIO(content)), head, key.public)
    except VerificationError as error:
        return False, error.index
    return True, None


def accepted_by_both(records: Sequence[tuple[bytes, bytes]]) -> int:
    """How many records both verifiers accept; of each both say the same, with the same entry at fault."""
    verdicts = judged(case_of(content, head, TEXT) for content, head in records)
    for (content, head), verdict in zip(records, verdicts, strict=True):
        assert (verdict.accepted, verdict.index) == python_says(content, head), verdict
    return sum(verdict.accepted for verdict in verdicts)


def joined(leaves: Sequence[bytes]) -> bytes:
    return b"".join(leaf + b"\n" for leaf in leaves)


# ---- vectors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "judge"), [("payload", "payload"), ("envelope", "envelope"), ("checkpoint", "head"), ("keys", "key")]
)
def test_it_judges_every_vector_as_wanted(name: str, judge: str) -> None:
    loaded = ledger_vectors.load(name)
    vectors = loaded["vectors"]
    cases = [
        {
            "judge": judge,
            "data": data(content_of(vector)),
            "text": vector.get("text", ""),
            "key": loaded.get("key", ""),
        }
        for vector in vectors
    ]
    for vector, verdict in zip(vectors, judged(cases), strict=True):
        assert verdict.accepted == ("want_error" not in vector), (vector["desc"], verdict)
        if verdict.accepted and "leaf_hash" in vector:
            assert verdict.found == vector["leaf_hash"]
        if verdict.accepted and "root" in vector:
            assert verdict.found == {"size": vector["size"], "root": vector["root"]}


@pytest.mark.parametrize("group", ["ids", "ledger_ids", "times", "numbers"])
def test_it_reads_every_field_as_wanted(group: str) -> None:
    vectors = ledger_vectors.load("fields")[group]
    for vector, verdict in zip(vectors, judged({**vector, "judge": group} for vector in vectors), strict=True):
        assert verdict.accepted == ("want_error" not in vector), (vector["desc"], verdict)


@pytest.mark.parametrize("group", ["inclusion", "consistency"])
def test_it_checks_every_proof_as_wanted(group: str) -> None:
    vectors = ledger_vectors.load("merkle")[group]
    for vector, verdict in zip(vectors, judged({**vector, "judge": group} for vector in vectors), strict=True):
        assert verdict.accepted == ("want_error" not in vector), (vector["desc"], verdict)


def test_its_roots_and_its_sha256_are_those_of_the_standard() -> None:
    loaded = ledger_vectors.load("merkle")
    contents = [bytes(range(256)) * 3, *(b"x" * size for size in range(130))]
    roots, *digests = judged(
        [
            {"judge": "roots", "leaves": loaded["leaves"]},
            *({"judge": "sha256", "data": data(content)} for content in contents),
        ]
    )
    assert roots.found == loaded["roots"]
    assert [said.found for said in digests] == [hashlib.sha256(content).hexdigest() for content in contents]


# ---- without the key ------------------------------------------------------------------------------------------------


def test_every_flipped_byte_of_a_small_ledger_is_named_by_both() -> None:
    leaves = LEAVES[:2]
    content, head = joined(leaves), signed_head(leaves, KEY)
    flips = [
        content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :]
        for place in range(len(content))
    ]
    assert accepted_by_both([(flip, head) for flip in flips]) == 0


def test_every_flipped_byte_and_every_truncation_of_the_head_is_judged_alike() -> None:
    content = joined(LEAVES)
    flips = [HEAD[:place] + bytes([HEAD[place] ^ (1 << place % 8)]) + HEAD[place + 1 :] for place in range(len(HEAD))]
    assert accepted_by_both([(content, head) for head in (*flips, *(HEAD[:size] for size in range(len(HEAD))))]) == 0


def test_deleted_swapped_repeated_and_truncated_entries_are_named_by_both() -> None:
    leaves = LEAVES[:8]
    content, head = joined(leaves), signed_head(leaves, KEY)
    others = [joined((*leaves[:index], *leaves[index + 1 :])) for index in range(8)]
    others += [joined((*leaves[: index + 1], *leaves[index:])) for index in range(8)]
    for left, right in combinations(range(8), 2):
        swapped = list(leaves)
        swapped[left], swapped[right] = swapped[right], swapped[left]
        others.append(joined(swapped))
    others += [content[:size] for size in range(0, len(content), 11)]
    assert accepted_by_both([(other, head) for other in others]) == 0


def test_what_is_no_record_at_all_is_refused_and_nothing_else_happens() -> None:
    chance = random.Random(20261128)
    content = joined(LEAVES[:5])
    records = [(chance.randbytes(chance.randrange(300)), chance.randbytes(chance.randrange(300))) for _ in range(200)]
    for _ in range(300):
        start, end = sorted(chance.randrange(len(content)) for _ in range(2))
        spliced = content[:start] + chance.randbytes(chance.randrange(4)) + content[end:]
        records.append((spliced, signed_head(spliced.split(b"\n")[:-1], KEY)))
    assert accepted_by_both(records) == 0


def test_a_head_from_before_is_held_against_the_record_by_both() -> None:
    """Of every size, of the record itself, of a fork and of a longer one; signed by its key, by another, by nobody."""
    leaves = LEAVES[:6]
    content, head = joined(leaves), signed_head(leaves, KEY)
    other = SigningKey.from_seed(KEY.public.name, b"o" * 32)
    heads = [signed_head(LEAVES[:size], KEY) for size in range(9)]
    heads += [signed_head([*LEAVES[:size], LEAVES[9]], KEY) for size in range(6)]
    heads += [signed_head(leaves[:3], other), heads[3][:-2], heads[3].replace(b"\n3\n", b"\n4\n")]
    verdicts = judged({**case_of(content, head, TEXT), "since": data(one)} for one in heads)
    for one, said in zip(heads, verdicts, strict=True):
        witnessed, index = None, None
        try:
            found = verification.verify(leaves, head, KEY.public, since=[one])
            witnessed = (found.witnessed, found.is_own)
        except (VerificationError, ParameterError) as error:
            index = getattr(error, "index", None)
        told = (said.found["witnessed"], said.found["is_own"]) if said.accepted else None
        assert (told, said.index) == (witnessed, index)
    assert sum(said.accepted for said in verdicts) == 7
    assert sum(said.index is not None for said in verdicts) == 9


# ---- with the key ---------------------------------------------------------------------------------------------------


def other_values(value: Any) -> Iterator[Any]:
    """Values a little beside one of the profile."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, max(0, value - 1), -1)
    elif isinstance(value, str):
        yield from (value + "0", value[:-1], "0", "0.5", "inf", "none", "Über")
    elif isinstance(value, list):
        yield from (value[1:], [*value, *value[:1]])
    for name in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for other in other_values(value[name]):
            yield {**value, name: other} if isinstance(value, dict) else [*value[:name], other, *value[name + 1 :]]
    if isinstance(value, dict):
        yield from ({other: value[other] for other in value if other != name} for name in value)
        yield {**value, "more": 1}


def with_request(payload: dict[str, Any], scope: str) -> dict[str, Any] | None:
    """The payload with the digest of what it says is reserved, so that the other rules are asked."""
    names = ("claim", "form", "parts", "priced", "attested")
    try:
        asked: dict[str, Any] = {name: payload[name] for name in names if name in payload}
        asked |= {"scope": scope, "mechanism": {name: payload["mechanism"][name] for name in ("kind", "parameters")}}
        return {**payload, "request": hashlib.sha256(wire.dump(asked)).hexdigest()}
    except (KeyError, TypeError, ParameterError):
        return None


def forgeries(payloads: Sequence[dict[str, Any]], index: int) -> Iterator[dict[str, Any]]:
    for other in other_values(payloads[index]):
        yield other
        digested = (
            with_request(other, payloads[index]["path"][-1]["scope"]) if other.get("kind") == "reserved" else None
        )
        if digested is not None:
            yield digested


def agree_on_forgeries(leaves: Sequence[bytes], key: SigningKey, chosen: random.Random, share: float) -> int:
    """Both judge records that end in a forged entry alike; returns how many both refuse."""
    payloads = [wire.parse(envelope.parse_unverified(leaf).payload) for leaf in leaves]
    records: list[tuple[int, bytes, bytes]] = []
    for index in range(len(payloads)):
        for other in forgeries(payloads, index):
            if chosen.random() >= share:
                continue
            try:
                leaf = envelope.seal(wire.dump(other), key)
            except ParameterError:  # what has no text in the profile cannot be forged
                continue
            record = (*leaves[:index], leaf)
            records.append((index, joined(record), signed_head(record, key)))
    verdicts = judged(case_of(content, head, key.public.text) for _, content, head in records)
    refused = 0
    for (index, content, head), verdict in zip(records, verdicts, strict=True):
        refused += not verdict.accepted
        assert_agrees(index, verdict, python_says(content, head, key), content)
    return refused


def assert_agrees(index: int, verdict: Verdict, python: tuple[bool, int | None], content: bytes) -> None:
    shown = content.split(b"\n")[index] if verdict.accepted != python[0] else b""
    what = envelope.parse_unverified(shown).payload if shown else b""
    if verdict.accepted and not python[0]:
        assert python[1] in verdict.not_recomputed, (index, what)
    else:
        assert (verdict.accepted, verdict.index) == python, (index, verdict, what)


def test_what_somebody_with_the_key_writes_against_the_rules_is_judged_alike() -> None:
    assert agree_on_forgeries(LEAVES, KEY, random.Random(1), share=0.03) > 80


def ending_in(index: int, **changes: Any) -> tuple[bytes, bytes]:
    """A record that ends in the entry at `index`, with some members changed."""
    payload = {**wire.parse(envelope.parse_unverified(LEAVES[index]).payload), **changes}
    if payload["kind"] == "reserved":
        payload |= with_request(payload, payload["path"][-1]["scope"]) or {}
    record = (*LEAVES[:index], envelope.seal(wire.dump(payload), KEY))
    return joined(record), signed_head(record, KEY)


def first(kind: str) -> int:
    """The first entry of a kind."""
    return next(place for place, leaf in enumerate(LEAVES) if entry_of(leaf).body.kind == kind)


def test_both_take_the_same_privacy_curves() -> None:
    chosen = random.Random(3)

    def some(*lengths: int) -> list[str]:
        return [chosen.choice(["0", "0.5", "1", "1.5"]) for _ in range(chosen.choice(lengths))]

    curves = [{"epsilons": some(1, 2), "deltas": some(1, 2), "reached": some(0, 0, 1, 2)} for _ in range(200)]
    curves += [{"epsilons": [], "deltas": [], "reached": []}, {"epsilons": ["1"], "deltas": ["1"], "reached": []}]
    records = [ending_in(first("audited"), claim={"kind": "privacy_curve", **one}, epsilon_lower="0") for one in curves]
    assert 10 < accepted_by_both(records) < 100


def test_both_refuse_audits_that_contradict_themselves() -> None:
    """What a claim of epsilon 0.25 allows, an e-value, and what so many runs can have."""
    point = {"delta": "0", "epsilon": "0.25", "epsilon_lower": "0.3"}
    fell: dict[str, Any] = {"verdict": "violation", "refuted": point}
    few: dict[str, Any] = {"trials_left": 2, "trials_right": 3, "epsilon_lower": "0"}
    by_bets = fell | {"method": "wealth"}
    by_hand = {"verdict": "violation", "epsilon_lower": "50", "method": "by_hand"}
    blank = {"trials_left": 0, "trials_right": 0}
    right: list[dict[str, Any]] = [fell, by_bets | {"e_value": "20"}, by_bets | {"e_value": "1000000000"}, few]
    right += [few | {"e_value": "32"}, by_hand | {"e_value": "20"}]
    wrong: list[dict[str, Any]] = [by_bets, by_hand, few | {"e_value": "32.1"}, few | {"trials_left": 1}]
    wrong += [few | blank, by_hand | few | {"e_value": "33"}, fell | {"refuted": point | {"epsilon": "0.2499"}}]
    wrong += [fell | {"refuted": point | {"epsilon": "0.1", "delta": "0.5"}}]
    index = first("audited")
    assert accepted_by_both([ending_in(index, **one) for one in right]) == len(right)
    assert accepted_by_both([ending_in(index, **one) for one in wrong]) == 0


def test_both_refuse_another_pair_or_other_code_than_was_intended() -> None:
    leaves, key = tuple(bundle.read(ledger_golden.KINDS_DATA)[0]), ledger_golden.KINDS_KEY
    payloads = [wire.parse(envelope.parse_unverified(leaf).payload) for leaf in leaves]
    said = next(one for one in payloads if one["kind"] == "intended")
    index = next(place for place, one in enumerate(payloads) if one.get("intended") == said["index"])
    records = []
    for name in ("code", "pair"):
        without = {member: value for member, value in payloads[index].items() if member != name}
        for forged in ({**without, name: "ef" * 32}, without):
            record = (*leaves[:index], envelope.seal(wire.dump(forged), key))
            records.append((joined(record), signed_head(record, key)))
    verdicts = judged(case_of(content, head, key.public.text) for content, head in records)
    for (content, head), verdict in zip(records, verdicts, strict=True):
        assert (verdict.accepted, verdict.index) == python_says(content, head, key) == (False, index)


def test_both_want_the_rules_of_leaves_and_forms() -> None:
    index = first("reserved")
    leaf = {"kind": "ex_post", "epsilon": "0", "sense": "pure", "delta": "0.1"}
    records = [ending_in(index, form="training"), ending_in(index, parts=leaf)]
    assert accepted_by_both(records) == 0
    assert accepted_by_both([ending_in(index)]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_more_of_it_in_both_golden_ledgers(seed: int) -> None:
    assert agree_on_forgeries(LEAVES, KEY, random.Random(100 + seed), share=0.6) > 1000
    leaves = tuple(bundle.read(ledger_golden.KINDS_DATA)[0])
    assert agree_on_forgeries(leaves, ledger_golden.KINDS_KEY, random.Random(seed), share=0.05) > 300


def test_it_knows_every_kind_that_an_entry_may_hold() -> None:
    """The golden ledger of kinds has them all. A new one: its line in verifier/schema.mjs, then `make verify-page`."""
    folder = ledger_golden.KINDS_DATA
    head, entries = ((folder / name).read_bytes() for name in ("checkpoint", "entries.jsonl"))
    (verdict,) = judged([case_of(entries, head, ledger_golden.KINDS_KEY.public.text)])
    assert (verdict.accepted, verdict.newer, verdict.reason) == (True, False, "")


def test_it_verifies_the_ledger_with_an_owner_and_refuses_what_the_owner_did_not_approve() -> None:
    folder = ledger_golden.DATA.parent / "golden_owned"
    leaves, head = bundle.read(folder)
    payloads = [wire.parse(envelope.parse_unverified(leaf).payload) for leaf in leaves]
    key = SigningKey.from_seed(str(payloads[0]["ledger"]), bytes(range(32)))
    without = [{name: value for name, value in one.items() if name != "approval"} for one in payloads]
    other = [{**one, "keep": "none"} if one["kind"] == "scope_opened" else one for one in payloads]
    records = [(joined(tuple(leaves)), head)]
    for changed in (without, other):
        forged, signed = forged_payloads(changed, key)
        records.append((joined(forged), signed))
    verdicts = judged(case_of(content, signed, key.public.text) for content, signed in records)
    assert [(said.accepted, said.index) for said in verdicts] == [(True, None), (False, 1), (False, 1)]
    assert [python_says(content, signed, key) for content, signed in records] == [(True, None), (False, 1), (False, 1)]


def test_where_entries_and_the_head_are_signed_by_other_keys_both_name_the_same_first() -> None:
    """Step 5 comes before those that look at each entry."""
    keys = (
        ledger_golden.TURNS_KEY,
        ledger_golden.TURNS_SECOND,
        ledger_golden.TURNS_ENTRY,
        ledger_golden.TURNS_RECOVERY,
    )
    by_id = {key.public.key_id_hex: key for key in keys}
    leaves = tuple(bundle.read(ledger_golden.KEYS_DATA)[0])
    payloads = [wire.parse(envelope.parse_unverified(leaf).payload) for leaf in leaves]
    signers = [by_id[envelope.key_id_of(leaf)] for leaf in leaves]
    records: list[tuple[bytes, bytes]] = []
    for at, other, of_head in product(range(len(leaves)), keys, keys):
        record: list[bytes] = []
        for index, payload in enumerate(payloads):
            linked = {**payload, "previous": merkle.leaf_hash(record[-1]).hex() if record else "0" * 64}
            record.append(envelope.seal(wire.dump(linked), other if index == at else signers[index]))
        records.append((joined(record), signed_head(record, of_head)))
    first = keys[0]
    verdicts = judged(case_of(content, head, first.public.text) for content, head in records)
    said = [(verdict.accepted, verdict.index) for verdict in verdicts]
    assert said == [python_says(content, head, first) for content, head in records]
    assert {True, False} == {accepted for accepted, _ in said}
    assert len({index for _, index in said}) > 5


def test_newer_words_stop_it_as_newer() -> None:
    first = wire.parse(envelope.parse_unverified(LEAVES[0]).payload)
    later: dict[str, Any] = {
        "index": 1,
        "kind": "merged",
        "ledger": first["ledger"],
        "time": "2026-11-21T10:00:00Z",
        "version": 1,
    }
    leaves, head = forged_payloads([first, later], KEY)
    (verdict,) = judged([case_of(leaves, head, TEXT)])
    assert (verdict.accepted, verdict.newer, verdict.index) == (False, True, 1)


# ---- what it says ---------------------------------------------------------------------------------------------------


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [node(), "--no-warnings", str(CLI), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("place", ["entries.jsonl", "checkpoint", "key", "since", "witness"])
def test_the_command_waits_for_no_pipe_and_reads_no_device(tmp_path: Path, place: str) -> None:
    """A bundle from somebody else may hold them."""
    (tmp_path / "entries.jsonl").write_bytes(joined(LEAVES))
    (tmp_path / "checkpoint").write_bytes(HEAD)
    trap = tmp_path / place
    trap.unlink(missing_ok=True)
    options = {"--key": TEXT} | ({f"--{place}": str(trap)} if "." not in place and place != "checkpoint" else {})
    for make in (os.mkfifo, lambda trap: trap.symlink_to("/dev/zero")):
        make(trap)
        ran = run(str(tmp_path), *(word for option in options.items() for word in option))
        trap.unlink()
        assert (ran.returncode, ran.stdout) == (2, "")
        assert f"{trap}: expected a regular file" in ran.stderr


def test_the_command_says_what_is_left_and_what_was_not_recomputed() -> None:
    ran = run(str(ledger_golden.DATA), "--key", TEXT, "--json")
    assert ran.returncode == 3, ran.stderr  # entries are missing
    found = json.loads(ran.stdout)
    state = verification.verify(LEAVES, HEAD, KEY.public).state
    assert {scope["scope"] for scope in found["scopes"]} == set(dict(state.scopes.items()))
    ward = next(scope for scope in found["scopes"] if scope["scope"] == "ward-7")
    assert ward["accounts"] == [{"account": "pure", "spent": "0.5", "limit": "1", "left": "0.5"}]
    assert any("price not recomputed" in said["what"] for said in found["not_recomputed"])


def test_the_exit_status_tells_refuted_from_unusable(tmp_path: Any) -> None:
    (tmp_path / "entries.jsonl").write_bytes(joined(LEAVES[:-1]))
    (tmp_path / "checkpoint").write_bytes(HEAD)
    cut = run(str(tmp_path), "--key", TEXT)
    assert (cut.returncode, cut.stdout) == (1, "")
    assert f"entry {len(LEAVES) - 1}" in cut.stderr
    assert run(str(tmp_path)).returncode == 2
    assert run(str(tmp_path), "--key", "no key").returncode == 2
    assert run(str(tmp_path / "missing"), "--key", TEXT).returncode == 2


def test_both_commands_tell_keys_and_a_revocation_alike() -> None:
    for folder, key, status in (
        (ledger_golden.DATA, KEY, 3),
        (ledger_golden.KINDS_DATA, ledger_golden.KINDS_KEY, 0),
        (ledger_golden.KEYS_DATA, ledger_golden.TURNS_KEY, 3),
    ):
        words = [str(folder), "--key", key.public.text, "--json"]
        theirs = run(*words)
        ours = CliRunner().invoke(app, ["verify", *words])
        assert (theirs.returncode, ours.exit_code) == (status, status), theirs.stderr + ours.output
        told, said = json.loads(theirs.stdout), json.loads(ours.stdout)
        assert {name: told[name] for name in ("keys", "revoked")} == {name: said[name] for name in ("keys", "revoked")}
