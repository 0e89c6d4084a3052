"""How the tests run: the same examples and the same noise each time, what takes long in five slices.

A failure is one of the change under test: `DPLEDGER_HYPOTHESIS=explore` draws new examples, twice as many, and new
noise, as `make test-slow` does.
No profile has a deadline: machines differ. A test that leaves mpmath with other digits than it found fails itself, and
not the oracles of those after it.

What is marked `sliced` (many seeds, many points of one law, a module that takes more than three seconds) is dealt to
five slices, test by test and case by case. `make test` runs one of them, `--slices=commit`, so that each commit runs
another, and CI stays below twenty minutes on slow machines too; pytest by itself runs all.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import os
import subprocess
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import mpmath
import pytest
from hypothesis import Phase, settings

from seed_batches import SLICES

if TYPE_CHECKING:
    from postgres_server import Server

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is loaded: its threads wait by spinning
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("explore", deadline=None)
settings.register_profile(
    "mutants", settings.get_profile("repeatable"), phases=(Phase.explicit, Phase.generate), print_blob=False
)  # that a case fails is enough: none is made smaller
PROFILE = os.environ.get("DPLEDGER_HYPOTHESIS", "repeatable")
settings.load_profile(PROFILE)


def pytest_addoption(parser: pytest.Parser) -> None:
    names = ["all", "commit", *map(str, range(SLICES))]
    parser.addoption("--slices", choices=names, default="all", help="which slices of the cases marked `sliced` are run")


def slices_of(config: pytest.Config) -> tuple[int, ...]:
    """The slices that are run."""
    asked, every = config.getoption("--slices"), range(SLICES)
    match asked:
        case "all":
            return tuple(every)
        case "commit":
            return (_of_the_commit(),)
        case _:
            return (int(asked),)


def _of_the_commit() -> int:
    """The slice that the commit chooses; 0 without git."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(commit, 16) % SLICES


def pytest_report_header(config: pytest.Config) -> str:
    return f"slices of `sliced`: {', '.join(map(str, slices_of(config)))} of 0 to {SLICES - 1} (--slices=N: one alone)"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is loaded meanwhile stays to the end: no search for garbage looks at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before anything is left out: a case stays in its slice, whatever `-m` and `-k` say
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = slices_of(config)
    before, others = Counter[str](), list[pytest.Item]()
    for item in items:
        if item.get_closest_marker("sliced") is None or item.get_closest_marker("slow") is not None:
            continue
        test = item.nodeid.partition("[")[0]
        if (zlib.crc32(test.encode()) + before[test]) % SLICES not in chosen:
            others.append(item)
        before[test] += 1
    left_out = set(others)
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=others)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server of the tests' own. Who kills it starts one for itself."""
    from postgres_server import Server

    made = Server()
    yield made
    made.close()


@pytest.fixture(scope="session")
def _states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths for what users' programs remember, where nothing is yet; they are made when somebody writes there."""
    folder = tmp_path_factory.mktemp("states")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _state_of_a_user(_states: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user's programs remember of ledgers: of each test its own, also in the processes that it starts."""
    monkeypatch.setenv("XDG_STATE_HOME", str(next(_states)))


@pytest.fixture(autouse=True)
def _noise_of_a_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test draws from the operating system in its own process comes from a keystream of its name.

    A test of that source itself is marked `system_noise`.
    """
    from dpledger.mechanisms.entropy import SystemEntropy, Words, seeded

    if PROFILE == "explore" or request.node.get_closest_marker("system_noise") is not None:
        return
    importlib.import_module("numpy.random")  # which keeps the `randbits` that it finds
    stream, home, from_the_system = seeded(zlib.crc32(request.node.nodeid.encode())), os.getpid(), SystemEntropy.words

    def words(source: SystemEntropy, count: int, /) -> Words:
        if os.getpid() != home:
            return from_the_system(source, count)
        source._home.require()
        return stream.words(count)

    def randbits(count: int) -> int:
        return int.from_bytes(stream.words(-(-count // 64)).tobytes(), "little") >> (-count % 64)

    monkeypatch.setattr(SystemEntropy, "words", words)
    monkeypatch.setattr("secrets.randbits", randbits)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    before = mpmath.mp.dps
    yield
    left, mpmath.mp.dps = mpmath.mp.dps, before
    assert left == before, f"{item.nodeid} leaves mpmath at {left} digits: mpmath.workdps is for that"
