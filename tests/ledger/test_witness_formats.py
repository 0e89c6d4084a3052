"""The bytes between a ledger and its witnesses, both ways with a reader of the C2SP texts that shares no code."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import c2sp_reader
import merkle_oracle
from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.signed import checkpoint, merkle
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.witnessing.cosigning import CosigningKey, WitnessKey, cosigned_by, line_of
from dpledger.ledger.witnessing.policy import Watcher, WitnessGroup, WitnessPolicy, read_policy
from dpledger.ledger.witnessing.submission import Submission, read_size
from javascript_verifier import judged

LOG = SigningKey.from_seed("clinic/" + "0" * 32, bytes(32))
SEED, NAME = bytes(range(32)), "witness.example/w1"
WITNESS = CosigningKey.from_seed(NAME, SEED)
HEAD = Checkpoint(origin=LOG.public.name, size=3, root=bytes(32))
NOTE = checkpoint.sign(HEAD, LOG)
REAL = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2"  # a witness of the public network


def cosigned(time: int = 1679315147) -> bytes:
    return NOTE + line_of(WITNESS.cosign(HEAD, time)).encode()


def said(note: bytes, *known: WitnessKey) -> list[tuple[str, int]]:
    head, lines = checkpoint.parse_unverified(note)
    return [(one.key.name, one.time) for one in cosigned_by(lines, head, known)]


# ---- cosignatures ---------------------------------------------------------------------------------------------------


def test_a_stock_reader_opens_what_we_cosign() -> None:
    ours = [c2sp_reader.Verifier.parse(text) for text in (LOG.public.text, WITNESS.public.text)]
    text, by = c2sp_reader.opened(cosigned(), ours)
    assert (text, by) == (HEAD.text.encode(), ours)
    assert WITNESS.public.text == c2sp_reader.cosigner_key(NAME, SEED)


@given(st.integers(0, 2**63 - 1))
def test_we_read_what_a_stock_cosigner_writes(time: int) -> None:
    line = c2sp_reader.cosigned(HEAD.text.encode(), NAME, SEED, time)
    assert said(NOTE + line, WITNESS.public) == [(NAME, time)]
    assert line == line_of(WITNESS.cosign(HEAD, time)).encode()


def test_a_key_of_the_public_network_and_the_example_of_the_text_are_read() -> None:
    assert WitnessKey.parse(REAL).text == REAL
    example = (
        "\u2014 witness.example.com/w1 "
        "jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
    )
    (_, line) = checkpoint.parse_unverified(NOTE + example.encode())[1]
    assert int.from_bytes(line.signature[:8], "big") == 1679315147  # "time 1679315147" there
    assert line_of(line) == example


def test_of_two_lines_of_one_witness_the_newest_counts_and_strangers_are_passed_over() -> None:
    stranger = line_of(CosigningKey.from_seed("other.example", bytes(32)).cosign(HEAD, 5)).encode()
    later = line_of(WITNESS.cosign(HEAD, 1679315148)).encode()
    assert said(cosigned() + later + stranger, WITNESS.public) == [(NAME, 1679315148)]
    assert said(cosigned()) == []
    assert said(NOTE, WITNESS.public) == []


@given(st.integers(0, 71), st.integers(1, 255))
def test_a_changed_cosignature_is_refused(place: int, flip: int) -> None:
    line = WITNESS.cosign(HEAD, 1679315147)
    changed = bytearray(line.signature)
    changed[place] ^= flip
    with pytest.raises(VerificationError):
        WITNESS.public.verify(bytes(changed), HEAD)


def test_a_cosignature_is_of_one_head_and_one_key() -> None:
    line = WITNESS.cosign(HEAD, 7)
    for other in (
        Checkpoint(origin=HEAD.origin, size=4, root=HEAD.root),
        Checkpoint(origin=HEAD.origin, size=3, root=b"1" * 32),
    ):
        with pytest.raises(VerificationError, match="not made by the key"):
            WITNESS.public.verify(line.signature, other)
    with pytest.raises(VerificationError, match="below 2"):
        WITNESS.public.verify((2**63).to_bytes(8, "big") + line.signature[8:], HEAD)
    log = c2sp_reader.Verifier.parse(LOG.public.text)  # the log's own signature is no cosignature
    with pytest.raises(VerificationError):
        WitnessKey("x", log.key).verify(bytes(8) + LOG.sign(HEAD.text.encode()), HEAD)


@pytest.mark.parametrize(
    "text",
    [
        "",
        LOG.public.text,  # of type 0x01
        WITNESS.public.text.replace("+", "+ ", 1),
        WITNESS.public.text.replace(NAME, "w2"),
        WITNESS.public.text[:-4],
        WITNESS.public.text + "\n",
        "PRIVATE+KEY+" + WITNESS.public.text,
    ],
)
def test_what_is_no_key_of_a_witness_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        WitnessKey.parse(text)


# ---- policies -------------------------------------------------------------------------------------------------------

KEYS = [CosigningKey.from_seed(f"w{number}.example", bytes([number]) * 32).public for number in range(5)]
WITNESSES = "".join(f"witness w{n} {key.text} https://w{n}.example/a/\n" for n, key in enumerate(KEYS[:3]))


def test_a_policy_of_a_stock_file_is_read_and_has_one_text() -> None:
    file = f"# ours\n\tlog {LOG.public.text}\n\n  {WITNESSES}group two\t2 w0  w1 w2\nquorum two"
    policy = WitnessPolicy.parse(file)
    assert policy.text == f"{WITNESSES}group two 2 w0 w1 w2\nquorum two\n"
    assert WitnessPolicy.written(policy.text) == policy
    met = [policy.is_met(set(some)) for count in range(4) for some in itertools.combinations(KEYS[:3], count)]
    assert met == [False] * 4 + [True] * 4
    assert policy.without_urls.text == policy.text.replace(" https://", "#").replace("#w0.example/a/", "").replace(
        "#w1.example/a/", ""
    ).replace("#w2.example/a/", "")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "one line `quorum NAME`"),
        ("quorum none\n", "a witness or a group"),
        (WITNESSES, "one line `quorum NAME`"),
        (WITNESSES + "quorum w0\nquorum w0\n", "one line"),
        (WITNESSES + "quorum w3\n", "an earlier line"),
        (WITNESSES + "group g 4 w0 w1 w2\nquorum g\n", "from 1 to 3"),
        (WITNESSES + "group g 0 w0 w1 w2\nquorum g\n", "from 1 to 3"),
        (WITNESSES + "group g 02 w0 w1 w2\nquorum g\n", "from 1 to 3"),
        (WITNESSES + "group g 2 w0 w0\nquorum g\n", "each name in one group"),
        (WITNESSES + "group g all w0 w1\ngroup h all g w0\nquorum h\n", "each name in one group"),
        (WITNESSES + "group g all g\nquorum g\n", "an earlier line"),
        (WITNESSES + "group w0 all w1\nquorum w0\n", "no earlier line has"),
        (WITNESSES + "group none all w1\nquorum w0\n", "not `none`"),
        (WITNESSES + f"witness w3 {KEYS[0].text}\nquorum w0\n", "another key for each"),
        (WITNESSES + f"witness w3 {LOG.public.text}\nquorum w0\n", "cosignature/v1"),
        (WITNESSES + "quorum w0\r\n", "visible ASCII"),
        (WITNESSES + "quorum\u00a0w0\n", "visible ASCII"),
        (WITNESSES + "quorums w0\n", "quorum NAME"),
        (f"witness w {KEYS[0].text} https://user:pass@w.example/\nquorum w\n", "without a user"),
        (f"witness w {KEYS[0].text} file:///etc/passwd\nquorum w\n", "http:// or https://"),
        (f"witness w {KEYS[0].text} https://w.example/?a=b\nquorum w\n", "without a user, a query"),
        (WITNESSES + "group g any w0 w1 w2\nquorum g\n", "a witness in common"),
        (WITNESSES + "group g any w0 w1\nquorum g\n", "a witness in common"),
    ],
)
def test_what_is_no_policy_is_refused(text: str, what: str) -> None:
    with pytest.raises(ParameterError, match=what):
        WitnessPolicy.parse(text)


ADDRESSES = [  # of a witness, and whether it is one
    ("http://localhost:8642", True),
    ("https://a-b.example:65535/x", True),
    ("http://[::1]:80/", True),
    ("http://127.0.0.1/", True),
    *((f"http://w:{port}/", False) for port in ("", "0", "080", "65536", "99999", "100000", "1:2", "x")),
    *((f"http://{host}/", False) for host in ("", ".", "a..b", "a.", "[", "[]", "[::1", "::1", "[a]b", "x" * 64)),
]


@pytest.mark.parametrize(("address", "is_one"), ADDRESSES)
def test_an_address_is_a_host_and_a_port_that_can_be_asked(address: str, is_one: bool) -> None:
    text = f"witness w {KEYS[0].text} {address}\nquorum w\n"
    (theirs,) = judged([{"judge": "policy", "text": text}])
    assert theirs.accepted == is_one
    if is_one:
        assert WitnessPolicy.written(text).text == text
    else:
        with pytest.raises(ParameterError, match="a host, a port"):
            WitnessPolicy.parse(text)


def test_a_key_in_the_place_of_a_policy_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "owner.key").write_text(SigningKey.generate("owner/" + "0" * 32).to_text())
    with pytest.raises(ParameterError) as refusal:
        read_policy(tmp_path / "owner.key")
    assert "PRIVATE" not in str(refusal.value)


def test_a_policy_in_an_entry_has_its_one_text() -> None:
    with pytest.raises(ParameterError, match="the one text"):
        WitnessPolicy.written(f"{WITNESSES}quorum  w0\n")


@st.composite
def policies(draw: st.DrawFn) -> tuple[tuple[WitnessGroup, ...], str]:
    """Trees of groups over five witnesses, each name in one group."""
    free = [f"w{number}" for number in range(5)]
    groups: list[WitnessGroup] = []
    for number in range(draw(st.integers(1, 3))):
        members = draw(st.lists(st.sampled_from(free), min_size=1, max_size=4, unique=True))
        least = draw(st.integers(1, len(members)))
        free = [name for name in free if name not in members] + [f"g{number}"]
        groups.append(WitnessGroup(f"g{number}", least, tuple(members)))
    return tuple(groups), groups[-1].name


@given(policies())
def test_two_quorums_have_a_witness_in_common_or_the_policy_is_refused(
    drawn: tuple[tuple[WitnessGroup, ...], str],
) -> None:
    """Against every pair of sets without a witness in common."""
    groups, quorum = drawn
    watchers = tuple(Watcher(f"w{number}", key) for number, key in enumerate(KEYS))

    def meets(some: tuple[str, ...], name: str = quorum) -> bool:
        found = next((group for group in groups if group.name == name), None)
        return name in some if found is None else sum(meets(some, one) for one in found.members) >= found.least

    names = [watcher.name for watcher in watchers]
    met = [set(some) for count in range(6) for some in itertools.combinations(names, count) if meets(some)]
    is_apart = any(not left & right for left in met for right in met)
    if is_apart:
        with pytest.raises(ParameterError, match="in common"):
            WitnessPolicy(watchers, groups, quorum)
    else:
        policy = WitnessPolicy(watchers, groups, quorum)
        for some in met:
            assert policy.is_met({watcher.key for watcher in watchers if watcher.name in some})


def test_a_policy_that_no_entry_holds_is_refused() -> None:
    keys = [CosigningKey.from_seed(f"w{n}.example", n.to_bytes(32, "big")).public for n in range(1, 60)]
    text = "".join(f"witness w{n} {key.text}\n" for n, key in enumerate(keys)) + "quorum w0\n"
    with pytest.raises(ParameterError, match="fewer witnesses"):
        WitnessPolicy.parse(text)


def test_the_text_of_one_key_is_a_policy_of_it_alone() -> None:
    policy = read_policy(WITNESS.public.text)
    assert (policy.is_met([WITNESS.public]), policy.is_met([])) == (True, False)


# ---- submissions and proofs -----------------------------------------------------------------------------------------


@given(st.integers(0, 2**53 - 1), st.lists(st.binary(min_size=32, max_size=32), max_size=63))
def test_a_submission_is_what_the_text_says(old: int, proof: list[bytes]) -> None:
    sent = Submission(old, tuple(proof), NOTE)
    assert sent.body == c2sp_reader.submission(old, proof, NOTE)
    assert Submission.parse(sent.body) == sent
    assert sent.origin == LOG.public.name


@pytest.mark.parametrize(
    "body",
    [
        b"",
        NOTE,
        b"old 1\n" + NOTE,
        b"old 01\n\n" + NOTE,
        b"old -1\n\n" + NOTE,
        b"old 9007199254740992\n\n" + NOTE,
        b"old 1 \n\n" + NOTE,
        b"Old 1\n\n" + NOTE,
        b"old 1\nabc=\n\n" + NOTE,
        b"old 1\nAAAA\n\n" + NOTE,
        b"old 1\n\xff\n\n" + NOTE,
        c2sp_reader.submission(1, [bytes(32)] * 64, NOTE),
    ],
)
def test_what_is_no_submission_is_refused(body: bytes) -> None:
    with pytest.raises(VerificationError):
        Submission.parse(body)


@given(st.binary(max_size=60))
def test_a_size_has_one_text(body: bytes) -> None:
    try:
        size = read_size(body)
    except VerificationError:
        return
    assert body == b"%d\n" % size


def test_a_proof_of_growth_is_that_of_the_rfc() -> None:
    """Of all trees up to 40 leaves; what is proved with a leaf that is another one does not hold."""
    leaves = [bytes([number]) for number in range(40)]
    hashes = [merkle.leaf_hash(leaf) for leaf in leaves]
    for new in range(1, 41):
        for old in range(1, new):
            older = merkle.CompactRange().extend(hashes[:old])
            proof = merkle.prove_growth(older, hashes[old:new])
            assert list(proof) == merkle_oracle.proof(old, leaves[:new])
            merkle.check_consistency(
                proof, old_size=old, old_root=older.root(), new_size=new, new_root=merkle.root(hashes[:new])
            )
            forged = [hashes[-1], *hashes[1:new]]
            with pytest.raises(VerificationError):
                merkle.check_consistency(
                    merkle.prove_growth(merkle.CompactRange().extend(forged[:old]), forged[old:]),
                    old_size=old,
                    old_root=older.root(),
                    new_size=new,
                    new_root=merkle.root(forged),
                )
