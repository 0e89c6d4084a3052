"""The tree against the definition in RFC 6962, exhaustively up to 40 leaves; and forged proofs: none may pass."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, strategies as st

import merkle_oracle
from dpledger.errors import DpledgerError, ParameterError, VerificationError
from dpledger.ledger.signed import merkle

LARGEST = 40
CONTENTS = [bytes([n]) * (n % 5) for n in range(LARGEST)]
HASHES = [merkle.leaf_hash(content) for content in CONTENTS]
ROOTS = [merkle_oracle.head(CONTENTS[:size]) for size in range(LARGEST + 1)]
SIZES = range(1, LARGEST + 1)
OTHER = merkle_oracle.leaf(b"not in any of the trees")
PROOFS = {(old, new): merkle.prove_consistency(HASHES[:new], old) for new in SIZES for old in range(new + 1)}


def included(proof: Sequence[bytes], leaf: bytes, index: int, size: int, root: bytes) -> bool:
    try:
        merkle.check_inclusion(proof, leaf_hash=leaf, index=index, size=size, root=root)
    except VerificationError:
        return False
    return True


def consistent(proof: Sequence[bytes], old_size: int, old_root: bytes, new_size: int, new_root: bytes) -> bool:
    try:
        merkle.check_consistency(proof, old_size=old_size, old_root=old_root, new_size=new_size, new_root=new_root)
    except VerificationError:
        return False
    return True


def forged(proof: tuple[bytes, ...]) -> Iterator[tuple[bytes, ...]]:
    """The proof with a hash lost, repeated, replaced, bent, cut, swapped with its neighbour, or added anywhere."""
    for place, value in enumerate(proof):
        before, after = proof[:place], proof[place + 1 :]
        yield before + after
        yield (*before, value, value, *after)
        yield (*before, OTHER, *after)
        yield (*before, value[:31], *after)
        yield (*before, value + b"\0", *after)
        for byte in (0, 31):
            yield (*before, value[:byte] + bytes([value[byte] ^ 1]) + value[byte + 1 :], *after)
        if after and after[0] != value:
            yield (*before, after[0], value, *after[1:])
    for place in range(len(proof) + 1):
        yield (*proof[:place], OTHER, *proof[place:])
    if len(proof) > 1:
        yield ()
        yield tuple(reversed(proof))


def test_roots_are_those_of_the_definition() -> None:
    assert [merkle.root(HASHES[:size]) for size in range(LARGEST + 1)] == ROOTS
    assert ROOTS[0] == merkle.EMPTY_ROOT
    assert len(set(ROOTS)) == LARGEST + 1


@pytest.mark.parametrize("size", SIZES)
def test_inclusion_proofs_of_every_leaf(size: int) -> None:
    for index in range(size):
        proof = merkle.prove_inclusion(HASHES[:size], index)
        assert list(proof) == merkle_oracle.path(index, CONTENTS[:size])
        assert included(proof, HASHES[index], index, size, ROOTS[size])


@pytest.mark.parametrize("size", SIZES)
def test_forged_inclusion_proofs(size: int) -> None:
    for index in range(size):
        proof, leaf, root = merkle.prove_inclusion(HASHES[:size], index), HASHES[index], ROOTS[size]
        assert not any(included(forgery, leaf, index, size, root) for forgery in forged(proof))
        assert not any(included(proof, leaf, other, size, root) for other in range(-2, size + 2) if other != index)
        assert not any(included(proof, other, index, size, root) for other in (OTHER, *HASHES) if other != leaf)
        for other in range(LARGEST + 1):
            if other != size:
                assert not included(proof, leaf, index, other, ROOTS[other])
                assert not included(proof, leaf, index, size, ROOTS[other])


@pytest.mark.parametrize("size", range(1, 6))
def test_of_all_short_sequences_of_the_trees_hashes_only_the_proof_passes(size: int) -> None:
    nodes = {merkle.root(HASHES[low:high]) for low in range(size) for high in range(low + 1, size + 1)}
    for index in range(size):
        proof = merkle.prove_inclusion(HASHES[:size], index)
        sequences = itertools.chain.from_iterable(itertools.product(nodes, repeat=length) for length in range(4))
        passed = [sequence for sequence in sequences if included(sequence, HASHES[index], index, size, ROOTS[size])]
        assert passed == [proof]


@pytest.mark.parametrize("new_size", SIZES)
def test_consistency_proofs_from_every_size(new_size: int) -> None:
    for old_size in range(new_size + 1):
        proof = PROOFS[old_size, new_size]
        expected = merkle_oracle.proof(old_size, CONTENTS[:new_size]) if 0 < old_size < new_size else []
        assert list(proof) == expected
        assert consistent(proof, old_size, ROOTS[old_size], new_size, ROOTS[new_size])


@pytest.mark.parametrize("new_size", SIZES)
def test_forged_consistency_proofs(new_size: int) -> None:
    for old_size in range(new_size + 1):
        proof = PROOFS[old_size, new_size]
        old_root, new_root = ROOTS[old_size], ROOTS[new_size]
        assert not any(consistent(forgery, old_size, old_root, new_size, new_root) for forgery in forged(proof))
        for other in range(LARGEST + 1):
            if other != old_size:
                assert not consistent(proof, old_size, ROOTS[other], new_size, new_root)
            if other != new_size and old_size > 0:
                assert not consistent(proof, old_size, old_root, new_size, ROOTS[other])


@pytest.mark.parametrize("new_size", SIZES)
def test_between_two_sizes_no_proof_of_others_passes(new_size: int) -> None:
    for old_size in range(new_size + 1):
        for proof in {PROOFS[other, new_size] for other in range(new_size + 1)} | {
            PROOFS[old_size, other] for other in range(max(old_size, 1), LARGEST + 1)
        }:
            passed = consistent(proof, old_size, ROOTS[old_size], new_size, ROOTS[new_size])
            assert passed == (proof == PROOFS[old_size, new_size])


@pytest.mark.parametrize("new_size", SIZES)
def test_a_rewritten_past_has_no_consistency_proof(new_size: int) -> None:
    """One leaf of the older tree was other than it is now: neither its honest proof nor the present one passes."""
    for old_size in range(1, new_size + 1):
        for place in {0, old_size // 2, old_size - 1}:
            rewritten = [*HASHES[:place], OTHER, *HASHES[place + 1 : new_size]]
            old_root = merkle.root(rewritten[:old_size])
            for hashes in (HASHES[:new_size], rewritten):
                proof = merkle.prove_consistency(hashes, old_size)
                assert not consistent(proof, old_size, old_root, new_size, ROOTS[new_size])


@given(st.integers(-3, 2**70), st.integers(-3, 2**70), st.lists(st.binary(max_size=33), max_size=4), st.data())
def test_no_numbers_and_hashes_break_the_checks(
    first: int, second: int, proof: list[bytes], data: st.DataObject
) -> None:
    left, right = data.draw(st.binary(max_size=33)), data.draw(st.binary(max_size=33))
    assert not included(proof, left, first, second, right)
    trivial = not proof and (first == 0 <= second or first == second)
    assert trivial or not consistent(proof, first, left, second, right)


@given(st.lists(st.binary(max_size=8), max_size=70), st.integers(0, 70))
def test_a_compact_range_grows_by_one_or_by_many(contents: list[bytes], cut: int) -> None:
    hashes = [merkle.leaf_hash(content) for content in contents]
    grown = merkle.CompactRange()
    for value in hashes:
        grown = grown.append(value)
    assert grown == merkle.CompactRange().extend(hashes[:cut]).extend(hashes[cut:])
    assert grown.size == len(contents)
    assert len(grown.hashes) == len(contents).bit_count()
    assert grown.root() == merkle_oracle.head(contents)
    assert merkle.CompactRange.decode(grown.encode()) == grown


@given(st.binary(max_size=150))
def test_a_compact_range_is_read_strictly(data: bytes) -> None:
    try:
        decoded = merkle.CompactRange.decode(data)
    except VerificationError:
        return
    assert decoded.encode() == data


@pytest.mark.parametrize("size", [1, 2, 3, 8, 39])
def test_a_truncated_compact_range_is_refused(size: int) -> None:
    data = merkle.CompactRange().extend(HASHES[:size]).encode()
    for end in range(len(data)):
        with pytest.raises(VerificationError):
            merkle.CompactRange.decode(data[:end])
    with pytest.raises(VerificationError):
        merkle.CompactRange.decode(data + b"\0")


def test_a_size_of_2_to_the_53_is_refused() -> None:
    with pytest.raises(VerificationError):
        merkle.CompactRange.decode((2**53).to_bytes(8, "big") + bytes(32))


@pytest.mark.parametrize(
    ("size", "hashes"),
    [
        (-1, ()),
        (1, ()),
        (0, (OTHER,)),
        (3, (OTHER,)),
        (1, (OTHER[:31],)),
        (1, ("x" * 32,)),
        (True, (OTHER,)),
        (2**53, (OTHER,)),
    ],
)
def test_an_impossible_compact_range_cannot_exist(size: int, hashes: tuple[bytes, ...]) -> None:
    with pytest.raises(ParameterError):
        merkle.CompactRange(size, hashes)


@pytest.mark.parametrize(("index", "size"), [(0, 0), (1, 1), (-1, 3), (3, 3)])
def test_no_proof_of_a_leaf_that_is_not_there(index: int, size: int) -> None:
    with pytest.raises(ParameterError):
        merkle.prove_inclusion(HASHES[:size], index)


@pytest.mark.parametrize("old_size", [-1, 4])
def test_no_proof_from_a_tree_that_is_no_beginning(old_size: int) -> None:
    with pytest.raises(DpledgerError):
        merkle.prove_consistency(HASHES[:3], old_size)


def test_a_leaf_is_never_a_node() -> None:
    left, right = HASHES[:2]
    assert merkle.leaf_hash(left + right) != merkle.node_hash(left, right)
    assert merkle.leaf_hash(b"\x01" + left + right) != merkle.node_hash(left, right)


@pytest.mark.parametrize("size", [1, 2, 7, 40, 1_000_003, 2**40 + 12345])
def test_a_proof_consists_of_few_subtrees_that_cover_the_tree_once(size: int) -> None:
    for index in {0, size // 3, size - 1}:
        ranges = merkle.inclusion_ranges(index, size)
        assert len(ranges) <= size.bit_length()
        covered = sorted([*ranges, (index, index + 1)])
        assert [low for low, _ in covered] == [0, *(high for _, high in covered[:-1])]
        assert covered[-1][1] == size
