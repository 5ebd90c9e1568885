"""Whole training steps in PyTorch, as a user writes them."""

import torch
from torch import nn
from torch.nn import functional as F

from layers import CHANNELS_LAST, Line


class Cosmoflow(nn.Sequential):
    """The network of Oyama et al. 2020 (arXiv 2007.12856), as suites/networks has it: seven convolutions 3^3, the fourth
    with stride 2, an average pool 3/2/1 after the first five (from 256 voxels on the sixth, from 512 the seventh too),
    three fully connected layers with dropout before each."""

    def __init__(self, width, norm, inputs=4, targets=4):
        layers, channels, side = [], inputs, width
        for i, outputs in enumerate((16, 32, 64, 128, 256, 256, 256), start=1):
            stride = 2 if i == 4 else 1
            layers.append(nn.Conv3d(channels, outputs, 3, stride, 1, bias=False))
            if norm:
                layers.append(nn.BatchNorm3d(outputs, momentum=0.001))
            layers.append(nn.LeakyReLU(0.01))
            channels, side = outputs, -(-side // stride)
            if i <= 5 or (i == 6 and width >= 256) or (i == 7 and width >= 512):
                layers.append(nn.AvgPool3d(3, 2, 1))
                side = -(-side // 2)
        layers.append(nn.Flatten())
        features = channels * side**3
        for outputs in (2048, 256, targets):
            layers += [nn.Dropout(0.2), nn.Linear(features, outputs)]
            if outputs != targets:
                layers.append(nn.LeakyReLU(0.01))
            features = outputs
        super().__init__(*layers)


class Step:
    """Forward, loss, backward and update."""

    def __init__(self, line, channels_last):
        line = Line(line)
        width, batch = line.number("width"), line.number("batch")
        self.network = Cosmoflow(width, line.values["norm"] == "global")
        self.x = torch.randn(batch, 4, width, width, width)
        self.target = torch.zeros(batch, 4)
        if channels_last:
            self.network = self.network.to(memory_format=CHANNELS_LAST[5])
            self.x = self.x.to(memory_format=CHANNELS_LAST[5])
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-3)

    def passes(self):
        return {"step": self.step}

    def step(self, clock):
        start = clock()
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.network(self.x), self.target)
        loss.backward()
        self.optimizer.step()
        return clock() - start
