#!/usr/bin/env python3
"""Writes reference files for `shardmark verify`: a network's output, loss, gradients and weights as PyTorch computes them.

    make.py --net 2020 --width 32 --batch 2 --optimizer adam --steps 5 out.h5     any network
    make.py --committed                                                             the files that are kept beside this script

FORMAT.md describes the files. Results repeat to the bit on one CPU type with one thread.
"""

import argparse
import pathlib

import h5py
import numpy as np
import torch
from torch import nn

import counter
import kinks
import network

FORMAT_VERSION = 1
HERE = pathlib.Path(__file__).resolve().parent

# Name -> arguments. Batch norm runs one step only: on so few values a channel, further steps amplify rounding without bound.
# Adam moves every weight by the learning rate, in step along a whole layer: at 0.001 the 2020 net amplifies rounding 1e5-fold.
COMMITTED = {
    "2020-w32-sgd": "--net 2020 --width 32 --input-scale 131072 --batch 2 --optimizer sgd --lr 0.01 --steps 5",
    "2020-w32-adam": "--net 2020 --width 32 --input-scale 131072 --batch 2 --optimizer adam --lr 0.00001 --steps 5",
    "2020-w32-dropout": "--net 2020 --width 32 --input-scale 131072 --batch 2 --optimizer sgd --lr 0.01 --steps 3 --dropout auto",
    "2020-w32-norm": "--net 2020 --width 32 --input-scale 1024 --batch 6 --norm global --steps 0",
    "2020-odd-sgd": "--net 2020 --width 36x40x33 --channels 3 --input-scale 131072 --batch 3 --optimizer sgd --lr 0.001 --steps 5 --loss mae",
    "mlperf-w32-sgd": "--net mlperf --width 32 --batch 2 --optimizer sgd --lr 0.01 --steps 5",
    "mlperf-w32-adam": "--net mlperf --width 32 --batch 2 --optimizer adam --lr 0.00001 --steps 5 --loss mae",
    "mlperf-w32-norm": "--net mlperf --width 32 --batch 4 --norm global --steps 0",
}


def parse(arguments=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", nargs="?", help="file to write")
    p.add_argument("--committed", action="store_true", help="write all files of files/ instead")
    p.add_argument("--net", choices=("2020", "mlperf"), default="2020")
    p.add_argument("--width", default="32", help="voxels: 32 or DxHxW")
    p.add_argument("--channels", type=int, default=4)
    p.add_argument("--norm", choices=("none", "global"), default="none", help="batch norm")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--dropout", default="0", help="fraction dropped; auto: the network's own")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--input-scale", type=float, default=1.0, help="factor on the input; the 2020 net without norm needs 1e5")
    p.add_argument("--loss", choices=("mse", "mae"), default="mse")
    p.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    p.add_argument("--lr", type=float, default=0.001)
    p.add_argument("--momentum", type=float, default=0.9)
    p.add_argument("--beta1", type=float, default=0.9)
    p.add_argument("--beta2", type=float, default=0.99)
    p.add_argument("--eps", type=float, default=1e-8)
    p.add_argument("--steps", type=int, default=5, help="optimizer steps; 0: one forward and backward pass")
    p.add_argument("--results", choices=("full", "digest"), default="full", help="keep all values, or a digest of them")
    p.add_argument("--no-f64", action="store_true", help="full files without the run in double precision")
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args(arguments)
    sizes = [int(n) for n in a.width.split("x")]
    if len(sizes) not in (1, 3) or min(sizes) < 1:
        p.error(f"--width: expected WIDTH or DxHxW, got {a.width}")
    a.fraction = None if a.dropout == "auto" else float(a.dropout)
    a.volume = sizes * 3 if len(sizes) == 1 else sizes
    if not a.committed and not a.file:
        p.error("expected a file to write or --committed")
    return a


def optimizer(a, parameters):
    if a.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=a.lr, momentum=a.momentum)
    return torch.optim.Adam(parameters, lr=a.lr, betas=(a.beta1, a.beta2), eps=a.eps)


def run(a, dtype, single=None):
    """All results of a run in `dtype`, from the same f32 start values: a dict of arrays and of dicts of arrays. With the results
    of the f32 run also `kinks`, how uncertain the gradients are."""
    model = network.build(a.net, a.channels, a.volume, a.norm == "global", a.fraction, a.seed).to(dtype)
    dropouts = {name: m for name, m in model.named_children() if isinstance(m, network.CounterDropout)}
    x = torch.from_numpy(counter.fields(a.seed, a.input_scale, (a.batch, a.channels, *a.volume))).to(dtype)
    target = torch.from_numpy(counter.targets(a.seed, (a.batch, network.TARGETS))).to(dtype)
    loss_of = {"mse": nn.MSELoss(), "mae": nn.L1Loss()}[a.loss]
    opt = optimizer(a, model.parameters())
    copy = lambda named: {name: t.detach().numpy().copy() for name, t in named if t.dtype.is_floating_point}
    result = {"losses": [], "weights": copy(model.named_parameters())}
    seen, end = kinks.watch(model)
    for step in range(max(a.steps, 1)):
        for module in dropouts.values():
            module.step = step
        opt.zero_grad()
        output = model(x)
        loss = loss_of(output, target)
        loss.backward(retain_graph=step == 0 and single is not None)
        result["losses"].append(loss.item())
        if step == 0:
            result["output"] = output.detach().numpy().copy()
            end()
            result["grads"] = copy((name, p.grad) for name, p in model.named_parameters())
            if single is not None:
                result["kinks"] = kinks.uncertainty(model, seen, single["before_kinks"])
            result["before_kinks"] = {name: values.detach() for name, (values, _) in seen.items()}
            seen.clear()
            result["buffers"] = copy(model.named_buffers())
            result["evaluation"] = model.eval()(x).detach().numpy().copy()
            model.train()
        if a.steps > 0:
            opt.step()
    result["losses"] = np.array(result["losses"])
    if a.steps > 0:
        result["weights_after"] = copy(model.named_parameters())
    result["masks"] = {name: np.stack(module.masks) for name, module in dropouts.items()}
    return result


def put(group, name, data):
    """A dataset, compressed where that pays."""
    small = data.nbytes < 4096
    group.create_dataset(name, data=data, **({} if small else {"compression": "gzip", "shuffle": True}))


def put_digest(a, group, number, name, single, double):
    """Sampled values, sum and norm of the f64 run; the largest and the L2 distance of the f32 run from it."""
    single, double = single.ravel().astype(np.float64), double.ravel()
    picked = counter.samples(a.seed, number, double.size, a.samples)
    dataset = group.create_dataset(name, data=double[picked])
    dataset.attrs["sum"] = double.sum()
    dataset.attrs["norm"] = np.linalg.norm(double)
    dataset.attrs["max_abs"] = np.abs(double).max()
    dataset.attrs["error"] = np.abs(single - double).max()
    dataset.attrs["error_norm"] = np.linalg.norm(single - double)


def put_kinks(a, f, double):
    """By how much gradients are uncertain, value by value as they are kept: where they are at all."""
    for number, (name, by) in enumerate(double["kinks"].items()):
        if by.any():
            kept = by.ravel()[counter.samples(a.seed, number, by.size, a.samples)] if a.results == "digest" else by
            put(f, f"kinks/{name}", kept.astype(np.float32))
            f[f"kinks/{name}"].attrs.update({"norm": np.linalg.norm(by), "max_abs": by.max()})


def write(a, path):
    torch.set_num_threads(a.threads)
    torch.use_deterministic_algorithms(True)
    a.samples = 128
    single = run(a, torch.float32)
    double = None if a.no_f64 and a.results == "full" else run(a, torch.float64, single)
    kept = [name for name in ("grads", "weights_after", "buffers") if single.get(name)]
    with h5py.File(path, "w", libver=("v108", "v108")) as f:
        attributes(a, f)
        for root, result in (("", single), ("f64/", double)):
            if result is not None:
                put(f, root + "output", result["output"])
                put(f, root + "evaluation", result["evaluation"])
                put(f, root + "losses", result["losses"].astype(result["output"].dtype))
        if double is not None:
            put_kinks(a, f, double)
        if a.results == "digest":
            for name in kept:
                group = f.create_group(name)
                for number, (tensor, values) in enumerate(single[name].items()):
                    put_digest(a, group, number, tensor, values, double[name][tensor])
            return
        put(f, "input", counter.fields(a.seed, a.input_scale, (a.batch, a.channels, *a.volume)))
        put(f, "target", counter.targets(a.seed, (a.batch, network.TARGETS)))
        for root, result in (("", single), ("f64/", double)):
            for name in kept if result is not None else ():
                for tensor, values in result[name].items():
                    put(f, f"{root}{name}/{tensor}", values)
        for name in ("weights", "masks"):
            for tensor, values in single[name].items():
                put(f, f"{name}/{tensor}", values)


def attributes(a, f):
    digest = a.results == "digest"
    f.attrs.update({"shardmark_reference": FORMAT_VERSION, "results": a.results, "start": "counter" if digest else "stored"})
    f.attrs["input_scale"] = a.input_scale
    f.attrs.update({"workload": "cosmoflow", "net": a.net, "width": a.width, "norm": a.norm, "dropout": a.dropout})
    f.attrs.update({name: getattr(a, name) for name in ("channels", "batch", "seed", "steps", "loss", "optimizer", "lr")})
    own = {"sgd": ("momentum",), "adam": ("beta1", "beta2", "eps")}[a.optimizer]
    f.attrs.update({name: getattr(a, name) for name in own})
    if digest:
        f.attrs["samples"] = a.samples
    f.attrs.update({"torch": str(torch.__version__), "numpy": np.__version__, "threads": a.threads})


def main():
    a = parse()
    if not a.committed:
        write(a, a.file)
        return
    (HERE / "files").mkdir(exist_ok=True)
    for name, arguments in COMMITTED.items():
        path = HERE / "files" / f"{name}.h5"
        write(parse([*arguments.split(), "--results", "digest", str(path)]), path)
        print(f"{path.relative_to(HERE)}: {path.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
