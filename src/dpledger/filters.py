"""Filters: what a budget admits, charge by charge, where later charges may depend on earlier answers.

A budget in a ledger makes its own filter; these are for who keeps the sums without one, or says in a composition how a
part was admitted (`docs/budgets.md`; proofs: `docs/proofs/filters.md`).

    PureFilter, BasicFilter, ZCDPFilter, RDPFilter, GDPFilter   one currency each
    EitherFilter                                                admits what one of several admits
    AllowanceFilter, Allowance                                  a plan's charges, each at most so many times
"""

from dpledger.stubs import attached

__getattr__, __dir__, __all__ = attached(__name__, __file__)
