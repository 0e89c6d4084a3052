"""Which witnesses count, and how many of them it takes: a C2SP tlog-policy (c2sp.org/tlog-policy).

    witness north north.example/w+5b2e8c1d+BMW...= https://north.example/
    witness south south.example/w+0c4e91aa+BEt...=
    witness third third.example/w+77ab0f3e+BFk...=
    group two 2 north south third
    quorum two

A group is met where so many of its members are (`any` is 1, `all` is all of them); members are witnesses or groups, and
a name is a member once. An address is where the witness is asked.

Two quorums of a ledger have a witness in common, or two copies of it could go on with one each: a policy where they
need not is refused. So `any` of two witnesses is no policy here, 2 of 3 is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from dpledger import bounded
from dpledger.errors import ParameterError
from dpledger.ledger.signed import wire
from dpledger.ledger.witnessing.cosigning import WitnessKey

__all__ = ["Watcher", "WitnessGroup", "WitnessPolicy", "read_policy"]

_NAME = re.compile(r"[!-~]{1,64}")
_HOST = r"([A-Za-z0-9_~-]{1,63}(\.[A-Za-z0-9_~-]{1,63})*|\[[0-9A-Fa-f:.]{2,45}\])"
_PORT = r":([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"  # 1 to 65535
_URL = re.compile(rf"https?://{_HOST}({_PORT})?(/[A-Za-z0-9._~%!$&'()*+,;=:-]*)*")
_COUNT = re.compile(r"[1-9][0-9]{0,3}")
_NONE = "none"


@dataclass(frozen=True, slots=True)
class Watcher:
    """A witness of a policy: its name there, its key, and the address under which it is asked, if one is told."""

    name: str
    key: WitnessKey
    url: str | None = None


@dataclass(frozen=True, slots=True)
class WitnessGroup:
    """At least `least` of `members`, each the name of a witness or of a group before this one."""

    name: str
    least: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WitnessPolicy:
    """The witnesses of a ledger, and which of them together are a quorum. ParameterError for a policy in which two
    quorums need not have a witness in common, and for one that is too long for an entry."""

    watchers: tuple[Watcher, ...]
    groups: tuple[WitnessGroup, ...]
    quorum: str

    def __post_init__(self) -> None:
        if len(self.text) > wire.LONGEST_TEXT:
            expected = f"at most {wire.LONGEST_TEXT} characters: fewer witnesses"
            raise ParameterError("witnesses", f"a policy of {len(self.text)} characters", expected)
        if self._may_part()[self.quorum]:
            expected = "a quorum of more than half, so that any two have a witness in common: else two copies of a "
            raise ParameterError("witnesses", "two quorums apart", expected + "ledger could go on with one each")

    @property
    def text(self) -> str:
        """The policy in its one text: witnesses, then groups, then the quorum, one space between words."""
        return "".join(
            (
                *(f"witness {one.name} {one.key.text}{f' {one.url}' if one.url else ''}\n" for one in self.watchers),
                *(f"group {one.name} {one.least} {' '.join(one.members)}\n" for one in self.groups),
                f"quorum {self.quorum}\n",
            )
        )

    @property
    def keys(self) -> tuple[WitnessKey, ...]:
        """Of all witnesses."""
        return tuple(one.key for one in self.watchers)

    @property
    def without_urls(self) -> WitnessPolicy:
        """Who counts, wherever they are asked."""
        return WitnessPolicy(tuple(Watcher(one.name, one.key) for one in self.watchers), self.groups, self.quorum)

    def is_met(self, seen: Collection[WitnessKey]) -> bool:
        """Whether the witnesses with these keys are a quorum."""
        met = {one.name: one.key in seen for one in self.watchers}
        for group in self.groups:
            met[group.name] = sum(met[name] for name in group.members) >= group.least
        return met[self.quorum]

    def _may_part(self) -> dict[str, bool]:
        """By name: whether two sets of witnesses without one in common both meet it. A member that may part serves
        both sets, another one of them; a name is a member once, so members share no witness."""
        parts = {one.name: False for one in self.watchers}
        for group in self.groups:
            twice = sum(parts[name] for name in group.members)
            parts[group.name] = 2 * group.least <= len(group.members) + twice
        return parts

    @classmethod
    def parse(cls, text: str) -> WitnessPolicy:
        """The policy that `text` says. `log` lines are passed over: the ledger is known. ParameterError, naming the
        line, for anything else."""
        read = _Reader()
        for number, words in _lines(text):
            read.line(words, f"witnesses, line {number}")
        if len(read.quorums) != 1:
            raise ParameterError("witnesses", f"{len(read.quorums)} lines", "one line `quorum NAME`")
        if len({one.key.public for one in read.watchers}) < len(read.watchers):
            raise ParameterError("witnesses", "a key twice", "another key for each witness")
        return cls(tuple(read.watchers), tuple(read.groups), read.quorums[0])

    @classmethod
    def written(cls, text: str) -> WitnessPolicy:
        """The policy of an entry, which stands there in its one text. ParameterError for any other."""
        policy = cls.parse(text)
        if policy.text != text:
            raise ParameterError("witness_policy", "another text", "the one text of this policy")
        return policy


def read_policy(source: WitnessPolicy | str | os.PathLike[str]) -> WitnessPolicy:
    """The policy in a file, or one that was read; of the text of one key, that this witness is the quorum.
    ParameterError, naming the file, for anything else."""
    if isinstance(source, WitnessPolicy):
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise ParameterError("witnesses", type(source).__name__, "the file of a policy (docs/team.md, witnesses)")
    if isinstance(source, str) and source.count("+") > 1 and not os.path.exists(source):
        return WitnessPolicy((Watcher("witness", WitnessKey.parse(source)),), (), "witness")
    try:
        return WitnessPolicy.parse(bounded.read(Path(source), 16 * wire.LONGEST_TEXT).decode("ascii"))
    except OSError as error:
        expected = f"a readable file with a policy ({error.strerror}); `dpledger witness init` writes one"
        raise ParameterError("witnesses", os.fspath(source), expected) from None
    except UnicodeDecodeError:
        raise ParameterError("witnesses", os.fspath(source), "a policy in ASCII") from None
    except ParameterError as error:
        raise ParameterError("witnesses", os.fspath(source), f"a policy of witnesses ({error})") from None


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """The words of each line that says something."""
    for number, line in enumerate(text.split("\n"), start=1):
        if any(not (character == "\t" or " " <= character <= "~") for character in line):
            raise ParameterError(f"witnesses, line {number}", "another character", "visible ASCII, spaces and tabs")
        words = line.split()
        if words and not words[0].startswith("#"):
            yield number, words


class _Reader:
    """What the lines of a policy said so far."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self.groups: list[WitnessGroup] = []
        self.quorums: list[str] = []
        self._names: set[str] = set()
        self._members: set[str] = set()

    def line(self, words: list[str], where: str) -> None:
        """The next line."""
        what, *rest = words
        if what == "witness" and len(rest) in (2, 3):
            self._require_new(rest[0], where)
            self.watchers.append(Watcher(rest[0], WitnessKey.parse(rest[1]), _url(rest[2:], where)))
        elif what == "group" and len(rest) > 2:
            name, least, *named = rest
            self._require_known(named, where)
            if len(set(named)) < len(named) or self._members & set(named):
                raise ParameterError(where, "a name twice", "each name in one group, once")
            self._require_new(name, where)
            self._members.update(named)
            self.groups.append(WitnessGroup(name, _least(least, len(named), where), tuple(named)))
        elif what == "quorum" and len(rest) == 1:
            self._require_known(rest, where)
            self.quorums.append(rest[0])
        elif what != "log" or len(rest) not in (1, 2):
            raise ParameterError(where, "another line", "witness NAME KEY [URL], group NAME K NAMES, or quorum NAME")

    def _require_new(self, name: str, where: str) -> None:
        if not _NAME.fullmatch(name) or name == _NONE or name in self._names:
            raise ParameterError(where, name, "a name of at most 64 characters, not `none`, that no earlier line has")
        self._names.add(name)

    def _require_known(self, named: list[str], where: str) -> None:
        for name in named:
            if name not in self._names:
                raise ParameterError(where, name, "a witness or a group of an earlier line")


def _least(text: str, members: int, where: str) -> int:
    if text in ("any", "all"):
        return 1 if text == "any" else members
    if not _COUNT.fullmatch(text) or int(text) > members:
        raise ParameterError(where, text, f"any, all, or a number from 1 to {members}")
    return int(text)


def _url(words: list[str], where: str) -> str | None:
    for url in words:
        if not _URL.fullmatch(url):
            expected = "http:// or https://, a host, a port or none, and a path; without a user, a query or a fragment"
            raise ParameterError(where, "another address", expected)
        return url
    return None
