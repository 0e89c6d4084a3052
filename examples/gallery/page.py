"""The two tables of docs/gallery.md, from results.json and the cases: `python examples/gallery/page.py`."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results.json"
PAGE = FOLDER.parents[1] / "docs" / "gallery.md"
SUMMARY = ("| case | library | it claims | loses | s |", "|---|---|---|---|---|")
CLEAN = ("| case | library | claimed | would have been refuted |", "|---|---|---|---|")


def written(page: str, results: list[dict[str, Any]]) -> str:
    """`page` with what is between its marks made again from `results`."""
    by_case: dict[str, list[dict[str, Any]]] = {}
    for one in results:
        by_case.setdefault(one["case"], []).append(one)
    found = {name: runs for name, runs in by_case.items() if any(run["verdict"] == "violation" for run in runs)}
    clean = {name: runs for name, runs in by_case.items() if name not in found}
    violations = [(name, run) for name, runs in found.items() for run in runs if run["verdict"] == "violation"]
    for mark, lines in (
        ("summary", [*SUMMARY, *(_row(name, run) for name, run in violations)]),
        ("findings", [line for name, runs in found.items() for line in _section(name, runs)]),
        ("clean", [*CLEAN, *(_clean(name, run) for name, runs in clean.items() for run in runs)]),
    ):
        start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        before, _, rest = page.partition(start)
        page = before + start + "\n".join(lines) + "\n" + end + rest.partition(end)[2]
    return page


def _row(name: str, run: dict[str, Any]) -> str:
    """One line of the first table; GitHub and MkDocs make the same anchor of the heading."""
    return f"| [`{name}`](#{name}) | {run['library']} | {run['claim']} | {_bound(run)} | {run['seconds']:.0f} |"


def _section(name: str, runs: list[dict[str, Any]]) -> list[str]:
    said = runpy.run_path(str(FOLDER / "cases" / f"{name}.py"))
    title = said["__doc__"].partition(": ")[2].strip()
    first = next(run for run in runs if run["verdict"] == "violation")
    later = "; ".join(f"{run['library']}: {_verdict(run)}" for run in runs if run is not first)
    return [
        f"### {name}",
        "",
        title[0].upper() + title[1:],
        "",
        f"* **Claimed** by {first['library']}: {said['CLAIMED']}.",
        f"* **Pair**: {said['PAIR']}.",
        f"* **Found**: {_bound(first)}; {first['event']}.",
        f"* **Why**: {said['WHY']}.",
        f"* **Now**: {'. '.join(one for one in (said.get('NOW', ''), later) if one)}.",
        f"* **Reported**: {f'<{reported}>' if (reported := said['REPORTED']) else 'nowhere that we know of'}.",
        f"* `python examples/gallery/run.py {name}`",
        "",
    ]


def _clean(name: str, run: dict[str, Any]) -> str:
    return f"| `{name}` | {run['library']} | {run['claimed']} | {run['event']} |"


def _bound(run: dict[str, Any]) -> str:
    return f"epsilon at least {run['epsilon_lower']:.3g}"


def _verdict(run: dict[str, Any]) -> str:
    return _bound(run) if run["verdict"] == "violation" else f"{run['verdict'].replace('_', ' ')} at {run['claim']}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), json.loads(RESULTS.read_text())))
