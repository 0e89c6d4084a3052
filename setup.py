"""Map the folders at the root into the one import package `dpledger`; all else is in pyproject.toml."""

import warnings

from setuptools import find_packages, setup

# setuptools says of an editable install that a folder `dpledger` beside this file would come first: there is none, and
# pip shows it as a warning of the build.
warnings.filterwarnings("ignore", message="Editable installation")

ROOMS = ["accounting", "attach", "audit", "ledger", "mechanisms", "reports"]

inside = find_packages(include=[*ROOMS, *(f"{room}.*" for room in ROOMS)])
setup(
    packages=["dpledger", "dpledger.cli", *(f"dpledger.{name}" for name in inside)],
    package_dir={"dpledger": "src/dpledger", **{f"dpledger.{room}": room for room in ROOMS}},
    include_package_data=False,
)
