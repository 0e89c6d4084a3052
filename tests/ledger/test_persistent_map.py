"""The mapping that the fold makes anew at each entry: it is a dict that never changes, and copies next to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from dpledger.ledger.rules.persistent import DEEPEST, LEAF_ITEMS, WIDTH, PersistentMap

KEYS = st.integers(0, 200).map(str)
CHANGES = st.lists(st.tuples(st.booleans(), KEYS, st.integers()), max_size=400)


class Alike(str):
    """Keys that all have one hash."""

    __slots__ = ()

    def __hash__(self) -> int:
        return -1


def filled(count: int) -> PersistentMap[int]:
    mapping: PersistentMap[int] = PersistentMap()
    for number in range(count):
        mapping = mapping.with_item(f"{number:032x}", number)
    return mapping


def nodes(mapping: PersistentMap[Any]) -> Iterator[Any]:
    """Every leaf and branch."""
    waiting = [mapping._root]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, tuple):
            waiting.extend(node)


def copied(before: PersistentMap[int], after: PersistentMap[int]) -> int:
    """How many places `after` has that it does not share with `before`."""
    shared = {id(node) for node in nodes(before)}
    return sum(len(node) for node in nodes(after) if id(node) not in shared)


@given(CHANGES)
def test_it_is_a_dict_in_the_order_of_its_keys(changes: list[tuple[bool, str, int]]) -> None:
    mapping: PersistentMap[int] = PersistentMap()
    model: dict[str, int] = {}
    for stays, key, value in changes:
        if stays:
            mapping, model[key] = mapping.with_item(key, value), value
        elif key in model:
            mapping = mapping.without(key)
            del model[key]
        else:
            with pytest.raises(KeyError):
                mapping.without(key)
    assert list(mapping.items()) == sorted(model.items())
    assert mapping == model
    assert len(mapping) == len(model)
    assert all(mapping.get(str(number)) == model.get(str(number)) for number in range(201))


@given(CHANGES)
def test_what_it_was_made_from_stays_as_it_was(changes: list[tuple[bool, str, int]]) -> None:
    versions: list[tuple[PersistentMap[int], dict[str, int]]] = [(PersistentMap(), {})]
    for stays, key, value in changes:
        mapping, model = versions[-1]
        if stays:
            versions.append((mapping.with_item(key, value), {**model, key: value}))
        elif key in model:
            versions.append((mapping.without(key), {name: model[name] for name in model if name != key}))
    assert all(mapping == model for mapping, model in versions)


def test_keys_of_one_hash_are_kept_apart() -> None:
    mapping: PersistentMap[int] = PersistentMap()
    for number in range(5 * LEAF_ITEMS):
        mapping = mapping.with_item(Alike(number), number)
    assert [mapping[Alike(number)] for number in range(5 * LEAF_ITEMS)] == list(range(5 * LEAF_ITEMS))
    for number in range(5 * LEAF_ITEMS):
        mapping = mapping.without(Alike(number))
    assert (len(mapping), list(nodes(mapping))) == (0, [{}])


def test_it_does_not_change_when_it_is_read() -> None:
    with pytest.raises(TypeError):
        filled(1)["other"] = 2  # type: ignore[index]


@pytest.mark.parametrize("count", [10, 1_000, 20_000])
def test_one_item_more_or_less_copies_a_path_and_shares_the_rest(count: int) -> None:
    mapping = filled(count)
    levels = 1
    while WIDTH**levels * LEAF_ITEMS / 2 < count:
        levels += 1
    most = levels * WIDTH + 2 * LEAF_ITEMS
    for key in ("new", f"{count // 2:032x}"):
        assert copied(mapping, mapping.with_item(key, 0)) <= most
    assert copied(mapping, mapping.without(f"{count // 2:032x}")) <= most
    assert levels < DEEPEST


def test_what_was_full_once_is_small_again() -> None:
    mapping = filled(2_000)
    for key in list(mapping):
        mapping = mapping.without(key)
    assert list(nodes(mapping)) == [{}]


def test_it_says_what_it_holds() -> None:
    assert repr(filled(1)) == "PersistentMap({'" + "0" * 32 + "': 0})"
