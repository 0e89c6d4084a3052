from .accounting.composition import AllowanceFilter as AllowanceFilter
from .accounting.filters import (
    AdvancedFilter as AdvancedFilter,
    BasicFilter as BasicFilter,
    Boundary as Boundary,
    EitherFilter as EitherFilter,
    GDPFilter as GDPFilter,
    MixedFilter as MixedFilter,
    PureFilter as PureFilter,
    RDPFilter as RDPFilter,
    ZCDPFilter as ZCDPFilter,
)
from .accounting.planning.allotting import Allowance as Allowance

__all__: list[str]
