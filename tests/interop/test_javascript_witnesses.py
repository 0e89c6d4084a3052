"""The verifier in JavaScript and the one in Python say the same of policies of witnesses, and of cosigned heads."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import c2sp_reader
import ledger_golden
from dpledger.cli import app
from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.verifying import bundle
from dpledger.ledger.verifying.seen import read_cosigned
from dpledger.ledger.witnessing.policy import WitnessPolicy, read_policy
from javascript_verifier import CLI, data, judged, node

pytestmark = pytest.mark.sliced

HEAD = bundle.read(ledger_golden.DATA)[1]
KEY = ledger_golden.KEY.public
SEEDS = [bytes([number]) * 32 for number in range(3)]
NAMES = [f"w{number}.example/w" for number in range(3)]
KEYS = [c2sp_reader.cosigner_key(name, seed) for name, seed in zip(NAMES, SEEDS, strict=True)]
LINES = "".join(f"witness w{number} {key} https://w{number}.example/\n" for number, key in enumerate(KEYS))
POLICY = f"{LINES}group two 2 w0 w1 w2\nquorum two\n"


def is_policy(text: str) -> bool:
    try:
        WitnessPolicy.written(text)
    except ParameterError:
        return False
    return True


def test_both_take_the_same_policies() -> None:
    """Every byte of a policy changed in two ways, taken away, and said twice; groups of every size."""
    texts = [
        POLICY,
        "",
        "\n",
        LINES,
        "quorum none\n",
        POLICY * 2,
        POLICY[:-1],
        POLICY + "\n",
        POLICY.replace("\n", "\r\n"),
    ]
    for place in range(len(POLICY)):
        others = (chr(ord(POLICY[place]) ^ 1), " ", "", POLICY[place] * 2)
        texts.extend(POLICY[:place] + other + POLICY[place + 1 :] for other in others)
    for least in range(5):
        texts.append(f"{LINES}group g {least} w0 w1 w2\nquorum g\n")
        texts.append(f"{LINES}group g 2 w0 w1\ngroup h {least} g w2\nquorum h\n")
        texts.append(f"{LINES}group g 1 w0 w1\ngroup h {least} g w2\nquorum h\n")
    lines = POLICY.splitlines(keepends=True)
    texts += ["".join(lines[:number] + lines[number + 1 :]) for number in range(len(lines))]
    texts += ["".join(lines[:number] + lines[number : number + 2][::-1] + lines[number + 2 :]) for number in range(4)]
    verdicts = judged({"judge": "policy", "text": text} for text in texts)
    wanted = [is_policy(text) for text in texts]
    assert [verdict.accepted for verdict in verdicts] == wanted
    assert 2 < sum(wanted) < len(wanted) / 2


def cosigned(*lines: bytes) -> dict[str, Any]:
    return {"judge": "cosigned", "data": data(HEAD + b"".join(lines)), "key": KEY.text, "witnesses": POLICY}


def python_says(note: bytes) -> list[dict[str, str]] | None:
    try:
        found = read_cosigned(note, WitnessPolicy.parse(POLICY))
    except VerificationError:
        return None
    return [{"witness": one.key.text, "time": str(one.time)} for one in found.by]


def test_both_read_the_same_cosignatures() -> None:
    text = HEAD.partition(b"\n\n")[0] + b"\n"
    signed = [c2sp_reader.cosigned(text, name, seed, 2**40) for name, seed in zip(NAMES, SEEDS, strict=True)]
    later = c2sp_reader.cosigned(text, NAMES[0], SEEDS[0], 2**62)
    early = c2sp_reader.cosigned(text, NAMES[0], SEEDS[0], 7)
    other = c2sp_reader.cosigned(text + b"more\n", NAMES[1], SEEDS[1], 7)
    stranger = c2sp_reader.cosigned(text, "s.example", b"s" * 32, 7)
    notes = [
        (),
        signed[:1],
        signed[:2],
        signed,
        (signed[0], later),
        (signed[0], later, signed[1], stranger),
        (signed[0], signed[1], other),
        (early, stranger, signed[2]),
        (c2sp_reader.cosigned(text, NAMES[0], SEEDS[1], 7), signed[2]),
    ]
    flips = bytearray(signed[1])
    for place in range(len(flips) - 1):
        flipped = bytes([*flips[:place], flips[place] ^ 1, *flips[place + 1 :]])
        notes.append((signed[0], flipped))
    verdicts = judged(cosigned(*lines) for lines in notes)
    wanted = [python_says(HEAD + b"".join(lines)) for lines in notes]
    assert [verdict.found if verdict.accepted else None for verdict in verdicts] == wanted
    assert wanted[2] is not None
    assert wanted[5] == [{"witness": KEYS[0], "time": str(2**62)}, {"witness": KEYS[1], "time": str(2**40)}]
    assert sum(one is not None for one in wanted) == 4


def test_both_read_the_policy_of_a_verifier_as_a_file_of_c2sp() -> None:
    text = HEAD.partition(b"\n\n")[0] + b"\n"
    line = c2sp_reader.cosigned(text, NAMES[0], SEEDS[0], 7)
    file = f"# mine\n{LINES}\tgroup g any w0\n  quorum   g\n"
    for source in (KEYS[0], file):
        (verdict,) = judged([{**cosigned(line), "witnesses": source}])
        assert verdict.accepted, verdict
    assert read_policy(KEYS[0]).keys == WitnessPolicy.parse(file).keys[:1]


def test_both_commands_ask_for_a_cosigned_checkpoint_where_the_record_holds_none(tmp_path: Path) -> None:
    entries = (ledger_golden.DATA / bundle.ENTRIES).read_bytes()
    text = HEAD.partition(b"\n\n")[0] + b"\n"
    line = c2sp_reader.cosigned(text, NAMES[0], SEEDS[0], 7)
    refuted = c2sp_reader.cosigned(text + b"more\n", NAMES[0], SEEDS[0], 7)
    cases = {"bare": (HEAD, 2), "cosigned": (HEAD + line, 3), "wrong": (HEAD + refuted, 1)}  # 3: its rollback
    for name, (head, code) in cases.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / bundle.ENTRIES).write_bytes(entries)
        (tmp_path / name / bundle.CHECKPOINT).write_bytes(head)
        words = [str(tmp_path / name), "--key", KEY.text, "--witness", KEYS[0]]
        ran = subprocess.run([node(), str(CLI), *words], capture_output=True, text=True, check=False)
        done = CliRunner().invoke(app, ["verify", *words])
        assert (ran.returncode, done.exit_code) == (code, code), (name, ran.stderr, done.output)
        assert ("cosigned one as well" in ran.stderr, "since: expected a cosigned" in done.stderr) == (code == 2,) * 2
