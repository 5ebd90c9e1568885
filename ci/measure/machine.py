"""What this machine is, and what it can do at best."""

import contextlib
import pathlib
import platform


def processor():
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


class Yardsticks:
    """Multiply-add peak in GFLOP/s and memory bandwidth in GB/s: the best of many looks during the run, since a machine
    that is shared or has just warmed up shows them at rare moments only."""

    REQUESTS = {"flops": "peak", "bytes": "stream"}

    def __init__(self, server):
        self.server, self.best = server, {}

    def look(self, threads, unit):
        """Looks once more and gives what this look saw."""
        rate = float(self.server.ask(f"{self.REQUESTS[unit]} threads={threads}"))
        self.best[threads, unit] = max(rate, self.best.get((threads, unit), 0.0))
        return rate

    def text(self, threads):
        return (f"threads {threads}: multiply-add peak {self.best[threads, 'flops']:.0f} GFLOP/s, "
                f"memory {self.best[threads, 'bytes']:.1f} GB/s")
