"""The timing server of PyTorch: it understands what shardmark's does (kernels/bench/src/server.rs) and answers alike.

A case is prepared by `PROBLEM | PASS | threads=N`; every `run` that follows runs it once and answers with its seconds;
`run after=S` does so after runs of S seconds in all, which do not count.
The one argument is the memory format, `contiguous` or `channels_last`.
"""

import gc
import sys
import time

import torch

import layers
import steps


def prepare(line, channels_last):
    kinds = {"adam": layers.Update, "sgd": layers.Update, "cosmoflow": steps.Step}
    kind = kinds.get(line.split()[0], layers.Layer)
    torch.manual_seed(0)
    return kind(line, channels_last)


def timed(run, after):
    """Seconds of a run, after others that take `after` seconds."""
    spent = 0.0
    while spent < after:
        spent += run(time.perf_counter)
    return run(time.perf_counter)


def main():
    channels_last = sys.argv[1] == "channels_last"
    run = None
    gc.disable()
    for request in sys.stdin:
        request = request.strip()
        try:
            if request.split()[0] == "run":
                answer = timed(run, float(request.removeprefix("run").strip().removeprefix("after=") or 0))
            elif request == "version":
                answer = torch.__version__
            else:
                line, name, threads = (part.strip() for part in request.split("|"))
                # The last case goes before the next comes.
                run = None
                gc.collect()
                torch.set_num_threads(int(threads.removeprefix("threads=")))
                run = prepare(line, channels_last).passes()[name]
                # The first run of a shape chooses and compiles what the next ones use.
                run(time.perf_counter)
                answer = "ready"
        except Exception as error:  # whoever asked shall hear it
            answer = f"error: {type(error).__name__}: {error}".replace("\n", " ")
        print(answer, flush=True)


main()
