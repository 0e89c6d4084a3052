from .accounting.composition import AllowanceFilter as AllowanceFilter
from .accounting.filters import (
    BasicFilter as BasicFilter,
    Boundary as Boundary,
    EitherFilter as EitherFilter,
    GDPFilter as GDPFilter,
    PureFilter as PureFilter,
    RDPFilter as RDPFilter,
    ZCDPFilter as ZCDPFilter,
    advanced as advanced,
    gaussians as gaussians,
)
from .accounting.planning.allotting import Allowance as Allowance

__all__: list[str]
