"""How well ranks on the cores of one machine scale, against one rank. `ci/scaling --help` tells the arguments.

A machine drifts: it shares its processor, warms up, gives its clock to others. So a round runs every case once for a few
steps, and only cases of the same round are compared; the next round begins with another one. The yardsticks of a round
(multiply-add rate, memory bandwidth, the allreduce of as many bytes as there are parameters) say what could be had.
"""

import argparse
import math
import os
import pathlib
import re
import shutil
import signal
import sys
import time

from console import positive, positives, show_progress
from machine import Yardsticks, processor
from program import ALONE, Case, Failed, Programs, write_suite
from server import Ended, Refused, Server
import table

AXES = "ndhw"
TRANSPORTS = ("threads", "mpi")
# An allreduce is short: it gets more steps than the network's.
ALLREDUCE_STEPS = {"warmup": 3, "steps": 20}


def arguments():
    p = argparse.ArgumentParser(
        prog="ci/scaling", description="Compares training steps of CosmoFlow on several ranks with those on one, on this machine.")
    p.add_argument("--ranks", default="2", metavar="LIST", help="default: %(default)s, one thread each")
    p.add_argument("--grids", default="d,h,w", metavar="LIST",
                   help="letters of ndhw: all ranks along that dimension; or NxDxHxW as it is (default: %(default)s)")
    p.add_argument("--transport", default="threads,mpi", metavar="LIST", help="default: %(default)s")
    p.add_argument("--batch", default="1,4", metavar="LIST", help="default: %(default)s")
    p.add_argument("--net", default="2020", help="2020 or mlperf (default: %(default)s)")
    p.add_argument("--width", default="128", help="voxels of a side, or DxHxW (default: %(default)s)")
    rounds = p.add_mutually_exclusive_group()
    rounds.add_argument("--rounds", type=positive, default=6, metavar="N", help="default: %(default)s")
    rounds.add_argument("--quick", action="store_true", help="2 rounds: a first impression")
    p.add_argument("--steps", type=positive, default=5, metavar="N", help="timed steps of a case in a round (default: %(default)s)")
    p.add_argument("--results", default="results/runs/scaling", metavar="FOLDER", help="default: %(default)s")
    p.add_argument("--programs", required=True, type=pathlib.Path, help=argparse.SUPPRESS)
    a = p.parse_args()
    a.rounds = 2 if a.quick else a.rounds
    a.batch, a.ranks = positives(p, "--batch", a.batch), positives(p, "--ranks", a.ranks)
    try:
        a.grids = grids(a.grids.split(","), a.ranks)
    except ValueError as error:
        p.error(f"--grids: expected letters of {AXES} or grids NxDxHxW, joined by commas, got {error}; correct it")
    a.transport = list(dict.fromkeys(a.transport.split(",")))
    if unknown := set(a.transport) - set(TRANSPORTS):
        p.error(f"--transport: expected threads, mpi or both, got {', '.join(unknown)}; correct it")
    a.transport = with_launcher(a.transport)
    return a


def grids(words, ranks):
    """The grids of more than one rank that the words mean, each once."""
    found = []
    for word in words:
        if word in AXES and len(word) == 1:
            found += ["x".join(str(n if axis == word else 1) for axis in AXES) for n in ranks]
        elif re.fullmatch(r"[1-9]\d*(x[1-9]\d*){3}", word):
            found.append(word)
        else:
            raise ValueError(word or "nothing")
    return [grid for grid in dict.fromkeys(found) if size(grid) > 1]


def size(grid):
    return math.prod(map(int, grid.split("x")))


def with_launcher(transports):
    """Those that this machine can start."""
    launcher = os.environ.get("SHARDMARK_LAUNCHER", "mpirun").split()[0]
    if "mpi" not in transports or shutil.which(launcher):
        return transports
    others = [transport for transport in transports if transport != "mpi"]
    message = f"ci/scaling: {launcher}: expected the launcher of MPI in PATH, got nothing; install it (Debian: openmpi-bin)"
    if not others:
        sys.exit(message)
    print(f"{message}, going on with threads", file=sys.stderr)
    return others


class Sweep:
    """The suites of a run, and the folder that they and their results lie in."""

    def __init__(self, a, programs, folder):
        self.a, self.programs, self.folder = a, programs, folder
        self.ranks = sorted({size(grid) for grid in a.grids})
        self.network, self.allreduce = folder / "network.toml", folder / "allreduce.toml"
        self.failed = {}
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            sys.exit(f"ci/scaling: --results: expected to make the folder {folder}, got {error.strerror}; name another one")
        line = f"cosmoflow net={a.net} width={a.width} norm=none"
        self.bytes = programs.parameter_bytes(line)
        common = {"mode": "strong", "transport": a.transport, "check": "none", "repeat": 1}
        write_suite(self.network, {
            **common, "workload": "cosmoflow", "net": a.net, "width": a.width, "norm": "none", "batch": a.batch,
            "grid": [ALONE, *a.grids], "warmup": 1, "steps": a.steps})
        write_suite(self.allreduce, {
            **common, "workload": "comm:allreduce", "bytes": self.bytes, "batch": 1,
            "grid": [self.line_of(n) for n in self.ranks], **ALLREDUCE_STEPS})
        programs.check(self.network)
        programs.check(self.allreduce)

    @staticmethod
    def line_of(ranks):
        """The grid of the allreduce, to which only its number of ranks matters."""
        return f"1x{ranks}x1x1"

    def groups(self):
        """The cases that are compared with each other."""
        return [[Case(batch, transport, grid) for grid in (ALONE, *self.a.grids)]
                for batch in self.a.batch for transport in self.a.transport]

    def round(self, number, progress):
        """Runs every case once, beginning with another one each time; the results by case, of both suites."""
        every = [case for group in turned(self.groups(), number) for case in turned(group, number)]
        sums = [Case(1, transport, self.line_of(n)) for n in self.ranks for transport in self.a.transport]
        found = []
        for suite, cases in ((self.allreduce, sums), (self.network, every)):
            results = self.folder / f"round-{number + 1}" / suite.stem
            for case in cases:
                if (suite, case) not in self.failed:
                    progress(f"{suite.stem} {case}")
                    self.programs.run(suite, case, results)
            found.append(self.programs.results(results) if results.is_dir() else {})
            for case, result in found[-1].items():
                if result.step is None:
                    self.failed[suite, case] = result
                    show_progress("")
                    print(f"ci/scaling: {suite.stem} {case}: {result.outcome}: {result.message}", file=sys.stderr)
        return found


def turned(items, number):
    number %= len(items)
    return items[number:] + items[:number]


class Measured:
    """What the complete rounds saw."""

    def __init__(self, sweep, yardsticks):
        self.sweep, self.yardsticks = sweep, yardsticks
        self.rates, self.sums, self.steps = [], [], []

    def round(self, number, rounds):
        def progress(text):
            show_progress(f"round {number + 1} of {rounds}: {text}")

        progress("multiply-add rate and memory bandwidth")
        rates = {(n, unit): self.yardsticks.look(n, unit) for unit in Yardsticks.REQUESTS for n in (1, *self.sweep.ranks)}
        self.yardsticks.server.rest()
        sums, steps = self.sweep.round(number, progress)
        self.rates.append(rates)
        self.sums.append(sums)
        self.steps.append(steps)

    def rows(self):
        return [table.Row.of(case, group[0], self.steps) for group in self.sweep.groups() for case in group]

    def yardstick_rows(self):
        rows = []
        for n in self.sweep.ranks:
            for name, key, unit in (("multiply-add", "flops", "GFLOP/s"), ("memory", "bytes", "GB/s")):
                one, many = ([rates[threads, key] for rates in self.rates] for threads in (1, n))
                rows.append(table.Yardstick(name, n, unit, one, many))
            for transport in self.sweep.a.transport:
                case = Case(1, transport, Sweep.line_of(n))
                seconds = [found[case].step for found in self.sums if case in found and found[case].step]
                rows.append(table.Yardstick(f"allreduce {transport}", n, "ms", [], [1e3 * s for s in seconds]))
        return rows


def header(a, sweep, rounds):
    text = [f"cosmoflow net={a.net} width={a.width} norm=none, a thread a rank, {processor()}; rounds in turn: {rounds}, "
            f"each {a.steps} steps after 1",
            "speed-up: the step on one rank of the same batch and transport to this one, in the same round; median over "
            f"the rounds and its {table.spread(rounds)}; halo, grad.: exposed communication, of the step",
            f"yardsticks: rates of one thread and of all; allreduce: the sum of {sweep.bytes} bytes, those of the parameters, "
            "with nothing to hide behind",
            "a step that only multiplies and adds gains the ratio of the multiply-adds, one that only moves memory that of "
            "the memory",
            "times alone: `shardmark check` compares the grids with the serial run"]
    if (os.cpu_count() or 1) < max(sweep.ranks):
        text.append(f"more ranks than the {os.cpu_count()} processors: do not believe those rows")
    return text


def finish(a, sweep, measured, stem):
    rounds = len(measured.steps)
    text, rows, yardsticks = header(a, sweep, rounds), measured.rows(), measured.yardstick_rows()
    print("\n".join(text) + "\n\n" + table.text(table.heads(rounds), rows) + "\n")
    print(table.text(table.yardstick_heads(rounds), yardsticks) + "\n")
    table.write(stem, text, rows, yardsticks, rounds)
    print(f"{stem}.md, {stem}.csv, {stem}-yardsticks.csv, {stem}-rounds.csv; records in {stem}")


def main():
    # Whoever stops it (a batch system's time is over) gets the complete rounds, as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    a = arguments()
    if not a.grids:
        sys.exit("ci/scaling: --ranks: expected more than one rank in some grid, got 1 alone; name 2 or more")
    stem = pathlib.Path(a.results) / time.strftime("%Y-%m-%dT%H-%M-%S")
    sweep = Sweep(a, Programs(a.programs), stem)
    with Server("shardmark", [str(a.programs / "examples/peer")]) as server:
        measured = Measured(sweep, Yardsticks(server))
        try:
            for number in range(a.rounds):
                measured.round(number, a.rounds)
        finally:
            show_progress("")
            if measured.steps:
                finish(a, sweep, measured, stem)
    return 1 if sweep.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, Refused, Ended) as error:
        show_progress("")
        sys.exit(f"ci/scaling: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
