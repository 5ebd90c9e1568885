"""Compares PyTorch and shardmark, run by run in turn. `ci/peers --help` tells its arguments.

Three servers wait in their own processes: PyTorch with contiguous tensors, PyTorch with channels-last ones, and shardmark.
A round runs a case once in each of them, one after the other, never two at once, and the next round begins with
another one. What disturbs the machine disturbs all three.
"""

import argparse
import contextlib
import os
import pathlib
import sys
import time
from statistics import median

from console import positive, positives, show_progress
import layout
from machine import Yardsticks, processor
from server import Ended, Refused, Server
import table

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SHAPES = ROOT / "kernels/bench/shapes"
FORMATS = ("contiguous", "channels_last")
OURS = "shardmark"
STEPS = ["cosmoflow width=128 batch=1 norm=none", "cosmoflow width=128 batch=1 norm=global"]
# After so many rounds, a format of PyTorch that lost each of them by so much is not run any more.
TRIAL, LOST = 4, 1.2
# Cases that take less than SHORT (seconds) run for WARM first in every turn. After a rest, a processor takes a while to reach
# its clock and to find its data again; and the system often wakes the threads of a team on one processor, where they
# take turns until it has looked around a few times.
SHORT, WARM = 0.1, 0.02


def arguments():
    p = argparse.ArgumentParser(prog="ci/peers", description="Compares the layers, or whole training steps, with PyTorch's.")
    p.add_argument("lines", nargs="*", metavar="LINE", help="problem lines of your own, instead of files")
    p.add_argument("--role", default="peers,memory", help="files of kernels/bench/shapes (default: %(default)s)")
    p.add_argument("--steps", action="store_true", help="whole training steps instead of layers")
    p.add_argument("--only", default="", metavar="SUBSTRING", help="cases whose line or pass contains it")
    p.add_argument("--threads", default="1,2", help="default: %(default)s")
    p.add_argument("--pairs", type=positive, default=20, metavar="N", help="rounds a case (default: %(default)s)")
    p.add_argument("--quick", action="store_true", help="6 rounds: a first impression")
    p.add_argument("--results", default="results/runs/peers", metavar="FOLDER", help="default: %(default)s")
    p.add_argument("--layer-server", required=True, help=argparse.SUPPRESS)
    p.add_argument("--step-server", required=True, help=argparse.SUPPRESS)
    a = p.parse_args()
    a.pairs = 6 if a.quick else a.pairs
    a.threads = positives(p, "--threads", a.threads)
    if not all(line.strip() for line in a.lines):
        p.error("LINE: expected a problem such as `dense n=1 c=2 k=3`, got an empty one; write one, or none for the files'")
    return a


def cases(a):
    """(role, problem line, pass) of everything to be compared."""
    if a.steps:
        every = [("steps", line, "step") for line in a.lines or STEPS]
    else:
        lines = [("given", line) for line in a.lines] or [
            (role, line) for role in a.role.split(",") for line in read_lines(role)]
        every = [(role, line, name) for role, line in lines for name in passes(line)]
    return [case for case in every if a.only in f"{case[1]} {case[2]}"]


def read_lines(role):
    path = SHAPES / f"{role}.txt"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in SHAPES.glob("*.txt")))
        sys.exit(f"ci/peers: --role: expected one of {known}, got {role}; correct it")
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def passes(line):
    return ["update"] if line.split()[0] in ("sgd", "adam") else ["forward", "backward"]


def formats(line):
    """PyTorch's memory formats that differ for a problem: those of images and volumes."""
    image = "x" in line.partition(" in=")[2].partition(" ")[0]
    return FORMATS if image or line.startswith("cosmoflow") else FORMATS[:1]


def torch_servers(wanted):
    return {name: Server(f"PyTorch ({name})", [sys.executable, str(HERE / "serve.py"), name]) for name in wanted}


@contextlib.contextmanager
def all_of(servers):
    with contextlib.ExitStack() as stack:
        for server in servers.values():
            stack.enter_context(server)
        yield servers


def compare(servers, line, name, threads, pairs, progress):
    """Seconds by server, a value a round."""
    after = WARM if min(server.run() for server in servers.values()) < SHORT else 0
    seconds = {server: [] for server in servers}
    for i in range(pairs):
        order = list(seconds)
        # Each comes first in turn.
        for server in order[i % len(order):] + order[:i % len(order)]:
            progress(f"{line} {name}, threads {threads}: round {i + 1} of {pairs}, {server}")
            seconds[server].append(servers[server].run(after))
        if i + 1 == TRIAL:
            drop_loser(seconds)
    return seconds


def drop_loser(seconds):
    torch = {server: values for server, values in seconds.items() if server != OURS}
    if len(torch) == 2:
        a, b = torch
        for loser, winner in ((a, b), (b, a)):
            if all(x > LOST * y for x, y in zip(torch[loser], torch[winner])):
                del seconds[loser]


def measure(servers, case, threads, a, yardsticks, progress):
    role, line, name = case
    progress(f"{line} {name}, threads {threads}: preparing")
    # shardmark first: it explains what is wrong with a line.
    unit, amount = servers[OURS].ask(f"{line} | {name} | threads={threads}").removeprefix("ready ").split("=")
    for server in servers:
        if server != OURS:
            servers[server].ask(f"{line} | {name} | threads={threads}")
    yardsticks.look(threads, unit)
    for server in servers.values():
        server.rest()
    seconds = compare(servers, line, name, threads, a.pairs, progress)
    ours = seconds.pop(OURS)
    best = min(seconds, key=lambda server: median(seconds[server]))
    memory = {}
    if name == "step":
        memory = {"torch_memory": servers[best].peak_memory(), "ours_memory": servers[OURS].peak_memory()}
    return table.Row(role, line, name, threads, best, seconds[best], ours, unit,
                     float(amount), yardsticks.best[threads, unit], **memory)


def measure_layers(a, chosen, yardsticks, progress):
    own = {OURS: Server(OURS, [a.layer_server])}
    with all_of(torch_servers(FORMATS) | own) as servers:
        for threads in a.threads:
            for case in chosen:
                try:
                    wanted = {name: servers[name] for name in (*formats(case[1]), OURS)}
                    yield measure(wanted, case, threads, a, yardsticks, progress)
                except Refused as error:
                    yield error


def measure_steps(a, chosen, yardsticks, progress):
    """Each case in processes of its own, so that their peak memory is the case's."""
    for threads in a.threads:
        for case in chosen:
            own = {OURS: Server(OURS, [a.step_server])}
            with all_of(torch_servers(FORMATS) | own) as servers:
                yield measure(servers, case, threads, a, yardsticks, progress)


def header(a):
    with Server("PyTorch", [sys.executable, str(HERE / "serve.py"), FORMATS[0]]) as server:
        version = server.ask("version")
    text = [f"PyTorch {version} in its better memory format, {processor()}, {a.pairs} rounds in turn",
            "ratio: PyTorch's median time to shardmark's, with its 95 % interval over the rounds; % of peak: of the "
            "multiply-add peak (GFLOP) or of the memory's bandwidth (GB); convolutions over tiles need fewer multiply-adds "
            "than the definition, by which all are counted: up to 225 % are possible"]
    if (os.cpu_count() or 1) < max(a.threads):
        text.append(f"more threads than the {os.cpu_count()} processors: do not believe those rows")
    return text


def main():
    a = arguments()
    chosen = cases(a)
    if not chosen:
        sys.exit(f"ci/peers: --only: expected a part of some case, got {a.only}; see kernels/bench/shapes")
    with Server(OURS, [a.layer_server]) as server:
        return report(a, chosen, Yardsticks(server))


def report(a, chosen, yardsticks):
    text = header(a)
    names = table.heads(a.steps)
    widths = table.widths(names, [line for _, line, _ in chosen])
    show_progress("multiply-add peak and memory bandwidth")
    for threads in a.threads:
        for unit in yardsticks.REQUESTS:
            yardsticks.look(threads, unit)
    show_progress("")
    print("\n".join(text + [yardsticks.text(n) for n in a.threads]) + "\n")
    print(layout.line(names, names, widths, table.LEFT), flush=True)
    rows, refused = [], 0
    try:
        for row in (measure_steps if a.steps else measure_layers)(a, chosen, yardsticks, show_progress):
            show_progress("")
            if isinstance(row, Refused):
                refused += 1
                print(f"ci/peers: {row}", file=sys.stderr)
            else:
                rows.append(row)
                print(layout.line(row.cells(), names, widths, table.LEFT), flush=True)
    finally:
        if rows:
            finish(a, text, rows, yardsticks)
    return 1 if refused else 0


def finish(a, text, rows, yardsticks):
    """Prints the summary and writes the files, with shares of the best peaks that the whole run saw."""
    for row in rows:
        row.limit = yardsticks.best[row.threads, row.unit]
    best = [yardsticks.text(n) for n in a.threads]
    print("\n" + "\n".join(table.summary(rows) + [f"best seen, {line}" for line in best]))
    folder = pathlib.Path(a.results)
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / time.strftime("%Y-%m-%dT%H-%M-%S")
    table.write(stem, text + best, rows)
    print(f"\n{stem}.md, {stem}.csv, {stem}-runs.csv")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Refused, Ended) as error:
        show_progress("")
        sys.exit(f"ci/peers: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
