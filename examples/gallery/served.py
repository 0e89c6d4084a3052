"""Run one case inside the environment of the library that it audits: `python served.py CASE.py`.

Imports nothing of dpledger and runs on Python 3.8: libraries that were released years ago need the Python of those
years. Each line of standard input asks one thing, in JSON, and gets one line of JSON back; nothing is pickled.

    {"runs": 500, "data": [0, 1], "seed": 7}   ->  {"outputs": [...]}      `mechanism(data)`, 500 times
    {"claim": true}                            ->  {"outputs": {"epsilon": "1"}}   `claim()`, in the library's own words
    {"claimed": true}                          ->  {"outputs": 1.25}       `claimed()`, what an accountant says
    {"version": "diffprivlib"}                 ->  {"outputs": "0.6.6"}

What a case raises outside of its runs ends the process, with the traceback on standard error. A run that raises has the
name of the error as its output.
"""

import json
import os
import random
import runpy
import sys
import warnings
from importlib.metadata import version


def plain(value):
    """`value` in the types of JSON: arrays as lists, numbers of numpy as numbers. TypeError for others."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    raise TypeError(f"a mechanism returned a {type(value).__name__}, which is not JSON")


def seeded(seed):
    """Seed the generators that libraries share with the process. Those that read the system's entropy stay random."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def run(mechanism, data):
    """One output of `mechanism`, or the name of what it raised."""
    try:
        return plain(mechanism(data))
    except Exception as error:
        if isinstance(error, TypeError) and "not JSON" in str(error):
            raise
        return "raised " + type(error).__name__


def answer(case, asked):
    """What one line asks."""
    if "version" in asked:
        return version(asked["version"])
    if "claim" in asked:
        return plain(case["claim"]())
    if "claimed" in asked:
        return plain(case["claimed"]())
    seeded(asked["seed"])
    return [run(case["mechanism"], asked["data"]) for _ in range(asked["runs"])]


def main(path):
    """Answer until standard input ends. Whatever a library prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")  # each case says on the page what its library warns of
    case = runpy.run_path(path)
    for line in sys.stdin:
        out.write(json.dumps({"outputs": answer(case, json.loads(line))}) + "\n")
        out.flush()


if __name__ == "__main__":
    main(sys.argv[1])
