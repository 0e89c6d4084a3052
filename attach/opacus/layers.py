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

__all__ = ["LayerState", "require_rows_apart", "require_trained"]

_OTHERS = frozenset({"_parameters", "_buffers", "_modules", "activations"})  # the last is where Opacus keeps its own
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


class LayerState:
    """What layers keep beside their weights, as it is when this is made, all of which is public then: their buffers,
    and tensors in attributes, also in lists, tuples and dictionaries there."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        weights = self._weights()
        self._layers = [
            (name, layer, _copied(layer._buffers, weights), _copied(_attributes(layer), weights))
            for name, layer in model.named_modules()
        ]

    def changed(self) -> str | None:
        """The name of one that is not as it was; None where all are. After this all are as they were."""
        weights, found = self._weights(), None
        for path, layer, buffers, attributes in self._layers:
            for kept, now, held in (
                (buffers, layer._buffers, layer._buffers),
                (attributes, _attributes(layer), vars(layer)),
            ):
                for name in {**kept, **now}:
                    if _same(_tensors(kept.get(name), weights), _tensors(now.get(name), weights)):
                        continue
                    found = found or f"{path}.{name}".removeprefix(".")
                    held.pop(name, None)
                    if name in kept:
                        held[name] = _copied(kept[name], weights)
        return found

    def _weights(self) -> set[int]:
        """Where the numbers of its weights lie: layers may have them under several names."""
        return {one.untyped_storage().data_ptr() for one in self._model.parameters()}


def _attributes(layer: torch.nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(layer).items() if name not in _OTHERS}


def _copied(kept: Any, weights: set[int]) -> Any:
    """The same, with tensors of its own but for `weights`."""
    match kept:
        case torch.Tensor():
            return kept.detach().clone() if _tensors(kept, weights) else kept
        case dict():
            return {name: _copied(one, weights) for name, one in kept.items()}
        case list():
            return [_copied(one, weights) for one in kept]
        case tuple():
            return tuple(_copied(one, weights) for one in kept)
        case _:
            return kept


def _tensors(kept: Any, weights: set[int]) -> list[torch.Tensor]:
    """The tensors in what is kept, in their order, but for `weights`."""
    match kept:
        case torch.Tensor():
            is_read = kept.layout is torch.strided and not kept.is_meta
            return [kept] if is_read and kept.untyped_storage().data_ptr() not in weights else []
        case dict():
            return _tensors(list(kept.values()), weights)
        case list() | tuple():
            return [tensor for one in kept for tensor in _tensors(one, weights)]
        case _:
            return []


def _same(before: list[torch.Tensor], now: list[torch.Tensor]) -> bool:
    return len(before) == len(now) and all(
        (one.dtype, one.shape) == (other.dtype, other.shape) and bool(torch.equal(_bits(one), _bits(other)))
        for one, other in zip(before, now, strict=True)
    )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Its bytes, of any type of numbers: a NaN is one as it stands."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
