"""What is printed and written of a comparison: a row a case, with an interval, and a summary of many."""

import csv
import dataclasses
import math
from statistics import median

from layout import interval, markdown, milliseconds

UNITS = {"flops": "GFLOP", "bytes": "GB"}


@dataclasses.dataclass
class Row:
    """A case: seconds of each run, by round, of PyTorch in its better format and of shardmark."""

    role: str
    problem: str
    name: str
    threads: int
    format: str
    torch: list
    ours: list
    unit: str
    amount: float
    limit: float
    torch_memory: int | None = None
    ours_memory: int | None = None

    def __post_init__(self):
        self.torch_ms, self.ours_ms = 1e3 * median(self.torch), 1e3 * median(self.ours)
        self.ratio = self.torch_ms / self.ours_ms
        self.low, self.high = interval(list(zip(self.torch, self.ours)), ratio_of_medians)
        self.rate = self.amount / self.ours_ms / 1e6

    @property
    def share(self):
        """Percent of the peak that limits it."""
        return 100 * self.rate / self.limit

    def cells(self):
        giga = f"{self.amount / 1e9:.3g} {UNITS[self.unit]}"
        memory = [f"{b / 2**20:.0f}" if b else "-" for b in (self.torch_memory, self.ours_memory)]
        return [str(self.threads), self.problem, self.name, giga, milliseconds(self.torch_ms), self.format,
                milliseconds(self.ours_ms), f"{self.ratio:.2f}", f"{self.low:.2f}-{self.high:.2f}", f"{self.rate:.1f}",
                f"{self.share:.0f}"] + (memory if self.name == "step" else [])


HEADS = ["threads", "case", "pass", "work", "PyTorch ms", "format", "shardmark ms", "ratio", "95 %", "G/s", "% of peak"]
MEMORY_HEADS = ["PyTorch MiB", "shardmark MiB"]
# Text columns stand left, numbers right.
LEFT = {"case", "pass", "format"}


def ratio_of_medians(pairs):
    return median(torch for torch, _ in pairs) / median(ours for _, ours in pairs)


def heads(steps):
    return HEADS + (MEMORY_HEADS if steps else [])


def widths(names, problems):
    fixed = {"case": max(map(len, problems)), "pass": 8, "format": 13, "work": 12, "95 %": 11}
    return [fixed.get(name, max(len(name), 8)) for name in names]


def summary(rows):
    """Lines of text: geometric mean of the ratios of each group of like rows."""
    groups = {}
    for row in rows:
        groups.setdefault((row.role, row.name, row.threads), []).append(row)
    text = []
    for (role, name, threads), members in groups.items():
        mean = math.exp(sum(math.log(row.ratio) for row in members) / len(members))
        below = sum(row.high < 1.0 for row in members)
        least = min(members, key=lambda row: row.ratio)
        text.append(f"{role}, {name}, threads {threads}: geometric mean {mean:.2f} over {len(members)}; wholly below 1.0: "
                    f"{below}; least {least.ratio:.2f} ({least.problem})")
    return text


def write(stem, header, rows):
    """Files of the table: Markdown to read, CSV of the table and of every run to compute with."""
    steps = any(row.name == "step" for row in rows)
    names = heads(steps)
    with open(f"{stem}.md", "w") as file:
        file.write("# PyTorch and shardmark\n\n" + "\n".join(f"- {text}" for text in header) + "\n\n")
        file.writelines(markdown(names, [row.cells() for row in rows]))
        file.write("\n" + "\n".join(f"- {text}" for text in summary(rows)) + "\n")
    with open(f"{stem}.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["role", "case", "pass", "threads", "work", "unit", "format", "pytorch_s", "shardmark_s", "ratio", "low",
                      "high", "rate_G_per_s", "percent_of_peak", "pytorch_peak_bytes", "shardmark_peak_bytes"])
        for row in rows:
            out.writerow([row.role, row.problem, row.name, row.threads, int(row.amount), row.unit, row.format,
                          row.torch_ms / 1e3, row.ours_ms / 1e3, row.ratio, row.low, row.high, row.rate, row.share,
                          row.torch_memory or "", row.ours_memory or ""])
    with open(f"{stem}-runs.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["case", "pass", "threads", "round", "format", "pytorch_s", "shardmark_s"])
        for row in rows:
            for i, (torch, ours) in enumerate(zip(row.torch, row.ours)):
                out.writerow([row.problem, row.name, row.threads, i, row.format, torch, ours])
