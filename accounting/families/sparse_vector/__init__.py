"""The numbers of the sparse vector: noise scales, what a run of it costs, how likely a test passes.

A test passes (is free) if query + noise(query_scale) > threshold + noise(threshold_scale); otherwise it is charged, and
after `cutoff` charged tests the run halts. Scales are divided by the sensitivity of the queries. An *epoch* is the run
of tests on one draw of the threshold noise, up to and including its charged test.

    mode              threshold noise     composed as
    single_threshold  drawn once          one shift of 1/threshold_scale, then 2/query_scale a charge: pure
    basic             redrawn each epoch  `cutoff` epochs of 1/threshold_scale + 2/query_scale, added up: pure
    dr14, zcdp, kov   redrawn each epoch  the same epochs, by the exact composition of pure mechanisms (`kov_delta`)
    target_charging   none                `calls` tests of 1/query_scale by `kov_delta`, plus the chance of more calls

Where all queries move in one direction between neighbours (`monotone`), a charge costs 1/query_scale. Where a value is
released with each free answer (`stable_at`), delta also covers the chance that one unit decides which (`stability`).

Proofs: docs/proofs/sparse_vector.md.

What prices one is here; what plans one, `scales`, is imported by its own name.

>>> from decimal import Decimal
>>> from dpledger.accounting.families.sparse_vector.leaf import SparseVectorLaw, SparseVectorOutcome
>>> law = SparseVectorLaw("basic", cutoff=1, epsilon=1, delta=0, threshold_scale=2, query_scale=4)
>>> ex_post_epsilon(law, SparseVectorOutcome(closed_epochs=(), open_epoch=100, halted=False))
Decimal('0.5')
"""

from __future__ import annotations

from dpledger.accounting.families.sparse_vector.accuracy import Noise, difference_tail, pass_probability, svt_alpha
from dpledger.accounting.families.sparse_vector.losses import (
    certify,
    delta_by_cause,
    epoch_epsilon,
    ex_post_epsilon,
    require_possible,
    target_delta,
)
from dpledger.accounting.families.sparse_vector.pure_steps import few_charges, kov_delta
from dpledger.accounting.families.sparse_vector.stability import stability_delta

__all__ = [
    "Noise",
    "certify",
    "delta_by_cause",
    "difference_tail",
    "epoch_epsilon",
    "ex_post_epsilon",
    "few_charges",
    "kov_delta",
    "pass_probability",
    "require_possible",
    "stability_delta",
    "svt_alpha",
    "target_delta",
]
