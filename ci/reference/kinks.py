"""How uncertain gradients are because networks have kinks: leaky ReLU at 0, max pooling where two values are equal.

Where a value lies within rounding of a kink, its gradient goes one way or the other by chance, and no f32 run is wrong that takes
the other way than the f64 run. Of a million activations some always lie there.
"""

import torch
from torch import nn

# A value counts as near a kink within this many times PyTorch's own largest f32 error in its layer. The largest of 1e5 to 1e6
# errors is about five standard deviations, so this is ten, and still five for kernels that round twice as much, as Winograd's do.
OWN_ERRORS = 2
# Backward passes for one layer. Up to as many positions have a pass each; more are dealt out to them in turn.
PASSES = 64


def watch(model):
    """A dict that the model's next forward passes fill, layer with a kink -> (its input, its output), and how to end it."""
    seen, hooks = {}, []
    for name, module in model.named_children():
        if isinstance(module, (nn.LeakyReLU, nn.MaxPool3d)):

            def hook(_, inputs, output, name=name):
                output.retain_grad()
                seen[name] = inputs[0], output

            hooks.append(module.register_forward_hook(hook))
    return seen, lambda: [hook.remove() for hook in hooks]


def uncertainty(model, seen, single):
    """For each parameter, by how much its gradient differs where positions near a kink take the other way.

    `seen` is of an f64 run after its backward pass that retained the graph, `single` has the layers' inputs of the f32 run.
    A backward pass is linear in the gradient that it starts with, so the change of that at one position, carried to the weights,
    is the effect of that position. Absolute effects are added: any of the positions may turn, and together they do at most that
    much. What two of them do to each other is a product of two small numbers, and left out."""
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for name, module in model.named_children():
        if name not in seen:
            continue
        values, output = seen[name]
        near = OWN_ERRORS * (single[name] - values.detach()).abs().max()
        turns = (_of_relu if isinstance(module, nn.LeakyReLU) else _of_pool)(module, values.detach(), output.grad, near)
        for first in range(min(len(turns), PASSES)):
            change = torch.zeros(values.numel(), dtype=values.dtype)
            for places, by in turns[first::PASSES]:
                change[places] += by
            change = change.view_as(values)
            effects = torch.autograd.grad(values, model.parameters(), change, retain_graph=True, allow_unused=True)
            for sum_, effect in zip(total.values(), effects):
                if effect is not None:
                    sum_ += effect.abs()
    return {name: t.numpy() for name, t in total.items()}


def _of_relu(module, values, gradient, near):
    """Positions and changes of the gradient of `values` if the other slope counted, one item a position."""
    values, gradient = values.flatten(), gradient.flatten()
    places = (values.abs() <= near).nonzero().flatten()
    other = torch.where(values[places] > 0, module.negative_slope - 1, 1 - module.negative_slope)
    return [(place, by) for place, by in zip(places[:, None], (gradient[places] * other)[:, None])]


def _of_pool(module, values, gradient, near):
    """The same if a window's gradient went to another of its values, which is as far from the largest as from a kink."""
    size = module.kernel_size
    windows = lambda t: t.unfold(2, size, size).unfold(3, size, size).unfold(4, size, size).flatten(5).flatten(0, 4)
    held, place = windows(values), windows(torch.arange(values.numel()).view_as(values))
    best, of_best = held.max(1)
    close = held >= (best - near)[:, None]
    close.scatter_(1, of_best[:, None], False)
    gradient = gradient.flatten()
    away = lambda w: torch.stack((-gradient[w], gradient[w]))
    return [(torch.stack((place[w, of_best[w]], place[w, i])), away(w)) for w, i in close.nonzero()]
