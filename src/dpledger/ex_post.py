"""What follows from a bound of the realised loss, in three senses; a step that does not hold raises CannotCertify.

    pure             the loss is at most E(o) at every outcome o
    probabilistic    but with probability delta it is
    integrated       what exceeds E(o) adds up to at most delta

A promise is `ExPostDP`: a cap, a sense, a delta, and after a run its loss. Each function takes promises, and
gives one that holds wherever these do (`docs/ex_post.md`, "Three senses"; proofs: `docs/proofs/ex_post.md`).

    constant, guarantee, guarantee_by_tail       from a guarantee, and back to one
    in_sense, with_slack                         from sense to sense
    post_processed, group, concurrent            functions of the outcome, several units, several mechanisms
    poisson_sampled, sampled_without_replacement on a secret sample

>>> from dpledger import ex_post
>>> household = ex_post.group(ex_post.ExPostDP("0.5", "pure"), 3)
>>> ex_post.guarantee(household).epsilon
Decimal('1.5')
"""

from dpledger.stubs import attached

__getattr__, __dir__, __all__ = attached(__name__, __file__)
