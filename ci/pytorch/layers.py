"""Problem lines of kernels/bench as PyTorch modules and optimizers."""

import torch
from torch import nn

DIMS = {1: (nn.Conv1d, nn.ConvTranspose1d, nn.AvgPool1d, nn.MaxPool1d, nn.BatchNorm1d),
        2: (nn.Conv2d, nn.ConvTranspose2d, nn.AvgPool2d, nn.MaxPool2d, nn.BatchNorm2d),
        3: (nn.Conv3d, nn.ConvTranspose3d, nn.AvgPool3d, nn.MaxPool3d, nn.BatchNorm3d)}
CONV, TRANSPOSED, AVERAGE, MAX, NORM = range(5)
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


class Line:
    """The words of a problem line; shardmark has checked the line before, so that little is checked here."""

    def __init__(self, line):
        self.name, *words = line.split()
        self.values = dict(word.split("=", 1) if "=" in word else (word, "") for word in words)

    def number(self, key):
        return int(self.values[key])

    def sizes(self, key, dims):
        values = self.values[key].split("x")
        return values * dims if len(values) == 1 else values

    def extents(self):
        return [int(extent) for extent in self.values["in"].split("x")]


class Layer:
    """A layer with its input and an output gradient. `run` computes a pass once and gives its seconds."""

    def __init__(self, line, channels_last):
        line = Line(line)
        self.module, shape = module_and_shape(line)
        x = torch.randn(shape)
        if channels_last:
            if x.dim() not in CHANNELS_LAST:
                raise ValueError(f"format: expected contiguous for `{line.name}`, got channels_last; it has no such format")
            x = x.to(memory_format=CHANNELS_LAST[x.dim()])
            self.module = self.module.to(memory_format=CHANNELS_LAST[x.dim()])
        self.x = x.requires_grad_("first" not in line.values)
        self.y = None
        self.dy = torch.randn_like(self.module(self.x))

    def passes(self):
        return {"forward": self.forward, "backward": self.backward}

    def forward(self, clock):
        self.y = None
        start = clock()
        self.y = self.module(self.x)
        return clock() - start

    def backward(self, clock):
        """All gradients. The graph of one forward pass serves all runs."""
        if self.y is None:
            self.y = self.module(self.x)
        self.x.grad = None
        for parameter in self.module.parameters():
            parameter.grad = None
        start = clock()
        self.y.backward(self.dy, retain_graph=True)
        return clock() - start


class Update:
    """An optimizer with one parameter."""

    def __init__(self, line, channels_last):
        line = Line(line)
        if channels_last:
            raise ValueError(f"format: expected contiguous for `{line.name}`, got channels_last; it has no such format")
        parameter = nn.Parameter(torch.randn(line.number("len")))
        parameter.grad = torch.randn_like(parameter)
        kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[line.name]
        self.optimizer = kind([parameter], lr=1e-3)

    def passes(self):
        return {"update": self.update}

    def update(self, clock):
        start = clock()
        self.optimizer.step()
        return clock() - start


def module_and_shape(line):
    """The module of a layer's line and the shape of its input."""
    if line.name == "dense":
        return nn.Linear(line.number("c"), line.number("k")), [line.number("n"), line.number("c")]
    extents = line.extents()
    dims = len(extents)
    shape = [line.number("n"), line.number("c"), *extents]
    if line.name == "batch_norm":
        return DIMS[dims][NORM](line.number("c")), shape
    if line.name == "leaky_relu":
        return nn.LeakyReLU(0.01), shape
    kernel, stride = ([int(size) for size in line.sizes(key, dims)] for key in ("kernel", "stride"))
    before, after = zip(*(two_sides(pad) for pad in line.sizes("pad", dims)))
    if before != after:
        # A tensor's last dimension comes first in what ConstantPad takes.
        sides = [side for pair in reversed(list(zip(before, after))) for side in pair]
        border = float("-inf") if line.name.startswith("pool_max") else 0.0
        module = windowed(line, dims, kernel, stride, [0] * dims)
        return nn.Sequential((nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d)[dims - 1](sides, border), module), shape
    return windowed(line, dims, kernel, stride, list(before)), shape


def windowed(line, dims, kernel, stride, padding):
    if line.name.startswith("pool_avg"):
        return DIMS[dims][AVERAGE](kernel, stride, padding)
    if line.name.startswith("pool_max"):
        return DIMS[dims][MAX](kernel, stride, padding)
    kind = DIMS[dims][TRANSPOSED if line.name.startswith("conv_transpose") else CONV]
    return kind(line.number("c"), line.number("k"), kernel, stride, padding, bias=False)


def two_sides(pad):
    before, _, after = pad.partition(":")
    return int(before), int(after or before)
