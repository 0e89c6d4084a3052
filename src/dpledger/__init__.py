"""dpledger: certified privacy accounting, a signed ledger of what was released, and empirical audits.

What people use every day is here; the rest stands in `dpledger.analytic`, `learning`, `stability`, `ex_post`,
`filters`, `keys`, `planning`, `results` and `errors`. The names of each are listed once, in the stub beside it
(`__init__.pyi`), and loaded when they are first used: `import dpledger` loads no numpy.
"""

from dpledger.stubs import attached

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = attached(__name__, __file__)
