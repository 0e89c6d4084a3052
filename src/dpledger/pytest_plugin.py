"""The fixture `assert_not_refuted`, for everybody who has dpledger installed beside pytest.

It is `dpl.assert_not_refuted`, and what each audit found goes into the report of the test run (`--junitxml`): how large
an epsilon the runs prove, and how large a true one they would have refuted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dpledger.audit import AuditResult


@pytest.fixture
def assert_not_refuted(record_property: Callable[[str, object], None]) -> Callable[..., tuple[AuditResult, ...]]:
    """`dpl.assert_not_refuted`, whose results are properties of the test in the report of the run."""
    from dpledger.audit.testing import assert_not_refuted as audited

    def judged(*given: Any, **asked: Any) -> tuple[AuditResult, ...]:
        results = audited(*given, **asked)
        for result in results:
            record_property(f"epsilon_lower of {result.mechanism.kind} on {result.pair}", str(result.epsilon_lower))
            if result.power is not None:
                record_property(f"epsilon that would have been refuted, on {result.pair}", str(result.power.epsilon))
        return results

    return judged
