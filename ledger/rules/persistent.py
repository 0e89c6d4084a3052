"""A mapping that is never changed: one item more or less makes a new one, which shares all the rest with the old.

The fold makes a state after every entry, and the state before must stay as it was: a transaction that fails goes on
from there. Copying every scope and every open charge at each entry would make n entries cost n^2.

    a node is a leaf, a dict of at most LEAF_ITEMS items, or a branch, a tuple of WIDTH nodes
    the branch at depth d chooses by the d-th group of BITS bits of the key's hash

>>> one = PersistentMap[int]().with_item("b", 1)
>>> two = one.with_item("a", 2)
>>> dict(one), list(two.items()), dict(two.without("b"))
({'b': 1}, [('a', 2), ('b', 1)], {'a': 2})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

__all__ = ["PersistentMap"]

Value = TypeVar("Value")
Leaf: TypeAlias = dict[str, Value]
Node: TypeAlias = "Leaf[Value] | tuple[Node[Value], ...]"

BITS = 4
WIDTH = 1 << BITS
LEAF_ITEMS = 16  # a leaf with more becomes a branch
MERGED_ITEMS = LEAF_ITEMS // 2  # a branch of leaves with no more becomes a leaf: well below, so that it does not flap
DEEPEST = 15  # groups in a hash of 64 bits; keys that agree in all of them share one leaf, of any size


class PersistentMap(Mapping[str, Value], Generic[Value]):
    """An immutable mapping from ids. It is read in the order of its keys, whatever the order they came in.

    Looking up, adding and removing one take a number of steps that grows as the logarithm of the size."""

    __slots__ = ("_root", "_size")

    def __init__(self) -> None:
        self._root: Node[Value] = {}
        self._size = 0

    @classmethod
    def of(cls, items: Mapping[str, Value]) -> PersistentMap[Value]:
        """A mapping of these."""
        made: PersistentMap[Value] = PersistentMap()
        for key, value in items.items():
            made = made.with_item(key, value)
        return made

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read as an object of its items."""
        (value,) = get_args(source)
        items = core_schema.dict_schema(core_schema.str_schema(), handler(value))
        return core_schema.no_info_after_validator_function(cls.of, items)

    def __getitem__(self, key: str) -> Value:
        node, path = self._root, hash(key)
        while isinstance(node, tuple):
            node, path = node[path % WIDTH], path >> BITS
        return node[key]

    def get(self, key: str, default: Any = None) -> Value | Any:
        """The value at `key`, or `default`."""
        node, path = self._root, hash(key)
        while isinstance(node, tuple):
            node, path = node[path % WIDTH], path >> BITS
        return node.get(key, default)

    def __contains__(self, key: object) -> bool:
        node, path = self._root, hash(key)
        while isinstance(node, tuple):
            node, path = node[path % WIDTH], path >> BITS
        return key in node

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(_keys(self._root)))

    def in_any_order(self) -> Iterator[Value]:
        """The values, in an order that means nothing: for who stops at the first few."""
        return (self[key] for key in _keys(self._root))

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"

    def with_item(self, key: str, value: Value) -> PersistentMap[Value]:
        """This mapping with `key` at `value`, which replaces the one that was there."""
        return _mapping(_with(self._root, hash(key), 0, key, value), self._size + (key not in self))

    def without(self, key: str) -> PersistentMap[Value]:
        """This mapping without `key`. KeyError if it is not there."""
        return _mapping(_without(self._root, hash(key), key), self._size - 1)


def _mapping(root: Node[Value], size: int) -> PersistentMap[Value]:
    made: PersistentMap[Value] = PersistentMap()
    made._root, made._size = root, size
    return made


def _keys(node: Node[Value]) -> Iterator[str]:
    if isinstance(node, dict):
        yield from node
    else:
        for child in node:
            yield from _keys(child)


def _with(node: Node[Value], path: int, depth: int, key: str, value: Value) -> Node[Value]:
    if isinstance(node, tuple):
        place = path % WIDTH
        child = _with(node[place], path >> BITS, depth + 1, key, value)
        return (*node[:place], child, *node[place + 1 :])
    leaf = {**node, key: value}
    return leaf if len(leaf) <= LEAF_ITEMS or depth == DEEPEST else _split(leaf, depth)


def _split(leaf: Leaf[Value], depth: int) -> Node[Value]:
    """The branch at `depth` that holds the items of a leaf which became too full. Where all of them go the same way
    the next item that comes there splits it again."""
    children: tuple[Leaf[Value], ...] = tuple({} for _ in range(WIDTH))
    for key, value in leaf.items():
        children[(hash(key) >> BITS * depth) % WIDTH][key] = value
    return children


def _without(node: Node[Value], path: int, key: str) -> Node[Value]:
    if isinstance(node, dict):
        if key not in node:
            raise KeyError(key)
        return {name: value for name, value in node.items() if name != key}
    place = path % WIDTH
    return _merged((*node[:place], _without(node[place], path >> BITS, key), *node[place + 1 :]))


def _merged(branch: tuple[Node[Value], ...]) -> Node[Value]:
    """The same items as one leaf, if they are few."""
    together: Leaf[Value] = {}
    for child in branch:
        if isinstance(child, tuple) or len(together) + len(child) > MERGED_ITEMS:
            return branch
        together.update(child)
    return together
