"""Audit released libraries: `python examples/gallery/run.py NAME` makes the environment, audits, throws it away.

    run.py                      the names
    run.py NAME ...             audit these, in each version that the case names
    run.py --here [NAME ...]    in this environment, those whose library it has in such a version
    run.py --write [NAME ...]   and write results.json and the tables of docs/gallery.md

A case is a file of `cases/`: plain constants, and `mechanism(data)`, or `claimed()` beside `truth(dpl)` where what is
audited is the number that an accountant says. It imports its library alone, and inside of the functions, so that both
this script and the library's own Python can read it. Needs dpledger installed.
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from environments import NoEnvironment, Served, environment, here
from page import PAGE, RESULTS, written

import dpledger as dpl

CASES = {path.stem: path for path in sorted((Path(__file__).resolve().parent / "cases").glob("*.py"))}
CONFIDENCE = "0.999999"  # of each verdict
TRIALS, SECONDS = 20_000, 120
DELTA = "1e-5"  # of accounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one audit of one version said. `epsilon_lower`: at the delta of the claim; None where nothing was refuted.
    `event`: of a violation; else which true epsilon would have been found."""

    case: str
    library: str
    claimed: str
    claim: str
    verdict: str
    epsilon_lower: float | None
    event: str
    seconds: float
    on: str

    def __str__(self) -> str:
        bound = "" if self.epsilon_lower is None else f", epsilon at least {self.epsilon_lower:.4g}"
        return f"{self.case}: {self.library}, {self.claim}: {self.verdict}{bound} ({self.seconds} s): {self.event}"


@dataclass(frozen=True, slots=True)
class Case:
    """One file of `cases/`, read."""

    name: str
    path: Path
    said: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> Case:
        return cls(path.stem, path, runpy.run_path(str(path)))

    @property
    def libraries(self) -> tuple[str, ...]:
        """What it audits, pinned: "name==version"."""
        return tuple(f"{self.said['PACKAGE']}=={version}" for version in self.said["VERSIONS"])

    def audit(self, library: str) -> Finding:
        """Audit `library`, one of its own, in an environment that has it. NoEnvironment where that cannot be made."""
        package, version = library.split("==")
        made = environment(self.said["PYTHON"], library, self.said["WITH"])
        with made as python, Served(python, self.path) as served:
            assert served.ask(version=package) == version
            started = time.perf_counter()
            claim, verdict, bound, event = (_accounted if "truth" in self.said else _sampled)(self.said, served)
        return Finding(
            case=self.name,
            library=f"{package} {version}",
            claimed=self.said["CLAIMED"],
            claim=claim,
            verdict=verdict,
            epsilon_lower=bound,
            event=event,
            seconds=round(time.perf_counter() - started, 1),
            on=date.today().isoformat(),
        )


def _sampled(said: dict[str, Any], served: Served) -> tuple[str, str, float | None, str]:
    """The claim, the verdict of `dpl.audit_mechanism` on the pair of a case, its bound, and the event."""

    def mechanism(data: object, size: int, rng: np.random.Generator) -> list[object]:
        outputs: list[object] = served.ask(runs=size, data=data, seed=int(rng.integers(2**31)))
        return outputs

    words = served.ask(claim=True) if "claim" in said else said["CLAIM"]
    result = dpl.audit_mechanism(
        mechanism,
        said["LEFT"],
        said["RIGHT"],
        dpl.ApproxDP(words["epsilon"], words["delta"]) if "delta" in words else dpl.PureDP(words["epsilon"]),
        relation=said["RELATION"],
        trials=said.get("TRIALS", TRIALS),
        seconds=SECONDS,
        stop_at_violation=False,
        confidence=CONFIDENCE,
        batched=True,
        floats=said.get("FLOATS", "numbers"),
        seed=1,
        progress=False,
    )
    print(result)
    claim = f"epsilon {float(words['epsilon']):.4g}" + (f" at delta {words['delta']}" if "delta" in words else "")
    if result.blind:
        return claim, "blind", None, result.blind
    if result.verdict == "violation":
        assert result.witness is not None
        return claim, result.verdict, float(result.epsilon_lower), result.witness.words
    assert result.power is not None
    return claim, result.verdict, None, f"{result.power.epsilon:.3g} from {result.trials:,} runs a side"


def _accounted(said: dict[str, Any], served: Served) -> tuple[str, str, float | None, str]:
    """Whether what an accountant says lies below what `dpl.compose` certifies to be lost at least."""
    claimed = float(served.ask(claimed=True))
    least = float(said["truth"](dpl).epsilon(DELTA).lower)
    claim = f"epsilon {claimed:.4g} at delta {DELTA}"
    if claimed < least:
        return claim, "violation", least, "certified by `dpl.compose`, which needs no runs"
    return claim, "not_refuted", None, f"{least:.6g}, as `dpl.compose` certifies"


def audited(names: list[str], *, only_here: bool) -> Iterator[Finding]:
    """The findings of these cases, version by version. What cannot be installed is told, and left out."""
    for name in names:
        case = Case.read(CASES[name])
        for library in case.libraries:
            if only_here and not here(library):
                continue
            print(f"== {name}: {library}", flush=True)
            try:
                yield case.audit(library)
            except NoEnvironment as missing:
                print(f"not audited: {missing}", file=sys.stderr)


def main(words: list[str]) -> None:
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("names", nargs="*", metavar="NAME")
    which = asked.add_mutually_exclusive_group()
    which.add_argument("--here", action="store_true", help="in this environment, those whose library it has")
    which.add_argument("--write", action="store_true", help="and write results.json and the tables of the page")
    given = asked.parse_args(words)
    if unknown := set(given.names) - set(CASES):
        asked.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    if not (given.names or given.here or given.write):
        print("\n".join(CASES))
        return
    for name in given.names or list(CASES):
        findings = list(audited([name], only_here=given.here))
        print("\n".join(map(str, findings)), flush=True)
        if given.write and findings:
            write(findings)  # case by case: one that is killed leaves those before it


def write(findings: list[Finding]) -> None:
    """Put `findings` in the place of what results.json has of their cases, and the tables of the page after it."""
    again = {one.case for one in findings}
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    kept = [one for one in before if one["case"] in set(CASES) - again]
    results = sorted(kept + [asdict(one) for one in findings], key=lambda one: one["case"])
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(written(PAGE.read_text(), results))


if __name__ == "__main__":
    main(sys.argv[1:])
