"""How the property tests run: the same examples each time, so that a failure is one of the change under test.

`DPLEDGER_HYPOTHESIS=explore` draws new ones, as `make test-slow` does. No profile has a deadline: machines differ.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("DPLEDGER_HYPOTHESIS", "repeatable"))
