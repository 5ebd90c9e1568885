"""CosmoFlow in PyTorch as a chain of named modules: the same layers, names and numbers as suites/networks/src/cosmoflow.rs.

A module's place in the chain is the layer number of the counter-based rules (start values, dropout masks).
"""

from collections import OrderedDict

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import counter

TARGETS = 4


class AveragePool(nn.Module):
    """Window 3, stride 2, padding 1, divided by 27 everywhere. Padded by hand: AvgPool3d refuses inputs of 2^3 and less."""

    def forward(self, x):
        return F.avg_pool3d(F.pad(x, (1,) * 6), 3, stride=2)


class SameConv(nn.Conv3d):
    """Kernel 2 with 'same' padding as TensorFlow pads: nothing before, one after."""

    def forward(self, x):
        return super().forward(F.pad(x, (0, 1) * 3))


class ScaledTanh(nn.Module):
    def forward(self, x):
        return 1.2 * torch.tanh(x)


class CounterDropout(nn.Module):
    """Dropout by the counter-based mask of (seed, layer, step)."""

    def __init__(self, keep):
        super().__init__()
        self.keep, self.seed, self.layer, self.step, self.masks = keep, 0, 0, 0, []

    def forward(self, x):
        if not self.training:
            return x
        mask = counter.dropout_mask(self.seed, self.layer, self.step, self.keep, tuple(x.shape))
        self.masks.append(mask.astype(np.uint8))
        return x * (torch.from_numpy(mask).to(x.dtype) * (1.0 / self.keep))


def _block(chain, i, conv, norm, slope):
    chain[f"conv{i}"] = conv
    if norm:
        chain[f"bn{i}"] = nn.BatchNorm3d(conv.out_channels, eps=1e-5, momentum=0.001)
    chain[f"act{i}"] = nn.LeakyReLU(slope)


def _drop(chain, i, fraction):
    if fraction > 0:
        chain[f"drop{i}"] = CounterDropout(1.0 - fraction)


def _paper_2020(channels, volume, norm, dropout):
    chain, c, widest = OrderedDict(), channels, max(volume)
    for i, k in enumerate((16, 32, 64, 128, 256, 256, 256), 1):
        _block(chain, i, nn.Conv3d(c, k, 3, stride=2 if i == 4 else 1, padding=1, bias=False), norm, 0.01)
        if i <= 5 or (i == 6 and widest >= 256) or (i == 7 and widest >= 512):
            chain[f"pool{i}"] = AveragePool()
        c = k
    chain["flatten"] = nn.Flatten()
    c = _features(chain, channels, volume)
    for i, k in enumerate((2048, 256, TARGETS), 1):
        _drop(chain, i, 0.2 if dropout is None else dropout)
        chain[f"fc{i}"] = nn.Linear(c, k)
        if i < 3:
            chain[f"fc_act{i}"] = nn.LeakyReLU(0.01)
        c = k
    return chain


def _mlperf(channels, volume, norm, dropout):
    chain, c = OrderedDict(), channels
    for i, k in enumerate((32, 64, 128, 256, 512), 1):
        _block(chain, i, SameConv(c, k, 2), norm, 0.3)
        chain[f"pool{i}"] = nn.MaxPool3d(2)
        c = k
    chain["flatten"] = nn.Flatten()
    c = _features(chain, channels, volume)
    for i, k in enumerate((128, 64, TARGETS), 1):
        chain[f"fc{i}"] = nn.Linear(c, k)
        if i < 3:
            chain[f"fc_act{i}"] = nn.LeakyReLU(0.3)
            _drop(chain, i, 0.5 if dropout is None else dropout)
        c = k
    chain["tanh"] = ScaledTanh()
    return chain


def _features(chain, channels, volume):
    """Values a sample after the convolutions; they follow from shapes alone."""
    with torch.no_grad():
        try:
            return nn.Sequential(chain).eval()(torch.zeros(1, channels, *volume)).shape[1]
        except RuntimeError as error:
            text = str(error).splitlines()[0]
            raise SystemExit(f"volume: expected one that every layer fits, got {volume} ({text}); make it wider") from None


def build(net, channels, volume, norm, dropout, seed):
    """The network with its counter-based start values: Glorot-uniform weights, biases of fully connected layers 0.1 in the
    2020 net, all other biases 0, batch norm 1 and 0. `dropout` is the fraction dropped, None the network's own."""
    make = {"2020": _paper_2020, "mlperf": _mlperf}[net]
    model = nn.Sequential(make(channels, volume, norm, dropout)).train()
    for layer, (name, module) in enumerate(model.named_children()):
        if isinstance(module, CounterDropout):
            module.seed, module.layer = seed, layer
        elif isinstance(module, (nn.Conv3d, nn.Linear)):
            shape = tuple(module.weight.shape)
            taps = int(np.prod(shape[2:]))
            values = counter.glorot(seed, layer, 0, shape, shape[1] * taps, shape[0] * taps)
            with torch.no_grad():
                module.weight.copy_(torch.from_numpy(values))
                if module.bias is not None:
                    module.bias.fill_(0.1 if net == "2020" and name.startswith("fc") else 0.0)
    return model
