"""What layers do with rows beside their gradients: mix those of a batch, or keep something of them beside the weights.

A model is saved with its buffers. The running statistics of a normalisation are means of private rows without noise,
and Opacus looks for them only in layers that have weights to train.

>>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3, affine=False))
>>> require_rows_apart(model)
Traceback (most recent call last):
...
dpledger.errors.ParameterError: model: expected layers that keep rows apart, like GroupNorm or LayerNorm, or \
normalisations in eval() with statistics that are public, got 1, a BatchNorm1d that mixes the rows of a batch
"""

from __future__ import annotations

from typing import Any

from dpledger.attach.extras import extra
from dpledger.errors import ParameterError

with extra("opacus"):
    import torch
    from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

__all__ = ["Buffers", "require_rows_apart", "require_trained"]

_IN_ONE = "a model on one device, in one process"
_APART = (
    "layers that keep rows apart, like GroupNorm or LayerNorm, or normalisations in eval() with statistics that are "
    "public"
)


def require_trained(model: object, optimizer: Any) -> None:
    """ParameterError unless `model` is a module that has all the parameters of `optimizer`."""
    expected = "the module whose parameters the optimizer trains, as make_private returned it"
    if not isinstance(model, torch.nn.Module):
        raise ParameterError("model", type(model).__name__, expected)
    if not set(map(id, optimizer.params)) <= set(map(id, model.parameters())):
        raise ParameterError("model", f"a {type(model).__name__} without them", expected)


def require_rows_apart(model: torch.nn.Module) -> None:
    """ParameterError for a normalisation of `model` that mixes the rows of a batch, or keeps statistics of them, and
    for a model of several devices or processes."""
    for name, layer in model.named_modules():
        found = _fault(layer)
        if found is not None:
            does, expected = found
            raise ParameterError("model", f"{name or 'itself'}, a {type(layer).__name__} that {does}", expected)


def _fault(layer: torch.nn.Module) -> tuple[str, str] | None:
    """What a layer does with rows that no noise covers, and what it should be instead; None where there is nothing."""
    if isinstance(layer, torch.nn.DataParallel) and len(layer.device_ids) > 1:
        return "clips on several devices, of which the guard sees one", _IN_ONE
    if isinstance(layer, torch.nn.parallel.DistributedDataParallel):
        return "adds up what several processes have, before it is clipped and has noise", _IN_ONE
    if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
        return "mixes the rows of a batch", _APART
    if isinstance(layer, _NormBase) and layer.training and layer.track_running_stats:
        return "keeps running statistics of rows", _APART
    return None


class Buffers:
    """The buffers of a model as they are when this is made, all of which are public then."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._layers = [(name, layer, _copied(layer._buffers)) for name, layer in model.named_modules()]

    def changed(self) -> str | None:
        """The name of one that is not as it was; None where all are. After this all are as they were."""
        found = None
        for path, layer, kept in self._layers:
            names = [name for name in {**kept, **layer._buffers} if not _same(kept, layer._buffers, name)]
            if names:
                found = found or f"{path}.{names[0]}".removeprefix(".")
                layer._buffers.clear()
                layer._buffers.update(_copied(kept))
        return found


def _copied(buffers: dict[str, Any]) -> dict[str, Any]:
    return {name: None if one is None else one.detach().clone() for name, one in buffers.items()}


def _same(kept: dict[str, Any], found: dict[str, Any], name: str) -> bool:
    if name not in kept or name not in found:
        return False
    one, other = kept[name], found[name]
    if one is None or other is None:
        return one is other
    return one.dtype == other.dtype and bool(torch.equal(one.nan_to_num(), other.nan_to_num()))
