"""What is printed and written: a row a case, a row a yardstick, and every round."""

import csv
import dataclasses
from statistics import median

from layout import interval, line, markdown, milliseconds
from program import ALONE

LEFT = {"transport", "grid", "yardstick", "unit"}
# Fewer rounds have no 95 % interval of a median: what is shown then is the least and the greatest.
ENOUGH = 6


def spread(rounds):
    """The heading of an interval over so many rounds."""
    return "95 %" if rounds >= ENOUGH else "min-max"


def between(values, form):
    return "-".join(form(value) for value in interval(values, median))


@dataclasses.dataclass
class Row:
    """A case by rounds: its results, and how much faster it was than one rank in the same round."""

    case: object
    results: list
    speedups: list

    @classmethod
    def of(cls, case, alone, rounds):
        """`rounds`: the results of each round by case; `alone`: the case on one rank."""
        both = [(one[alone].step, one[case].step) for one in rounds if alone in one and case in one]
        return cls(case, [one[case] for one in rounds if case in one], [a / b for a, b in both if a and b])

    def timed(self):
        return [result for result in self.results if result.step]

    def percent(self, part):
        values = [getattr(result, part) for result in self.timed()]
        return None if None in values or not values else 100 * median(values)

    def step(self):
        steps = [result.step for result in self.timed()]
        return median(steps) if steps else None

    def cells(self):
        failed = next((result.outcome for result in self.results if not result.step), "-")
        percent = (self.percent(part) for part in ("halo", "grad"))
        return [str(self.case.batch), self.case.transport, self.case.grid,
                milliseconds(1e3 * self.step()) if self.step() else failed,
                f"{median(self.speedups):.2f}" if self.speedups else "-",
                between(self.speedups, "{:.2f}".format) if self.speedups and self.case.grid != ALONE else "-",
                *("-" if value is None else f"{value:.1f}" for value in percent)]


@dataclasses.dataclass
class Yardstick:
    """A rate of one thread and of as many as there are ranks, or the time of something that only ranks do, by rounds."""

    name: str
    ranks: int
    unit: str
    one: list
    many: list

    def ratios(self):
        return [many / one for one, many in zip(self.one, self.many)]

    def cells(self):
        ratios = self.ratios()
        return [self.name, str(self.ranks), self.unit, f"{median(self.one):.1f}" if self.one else "-",
                f"{median(self.many):.1f}" if self.many else "-", f"{median(ratios):.2f}" if ratios else "-",
                between(ratios or self.many, ("{:.2f}" if ratios else "{:.1f}").format) if self.many else "-"]


def heads(rounds):
    return ["batch", "transport", "grid", "step ms", "speed-up", spread(rounds), "halo %", "grad. %"]


def yardstick_heads(rounds):
    return ["yardstick", "ranks", "unit", "one", "all", "ratio", spread(rounds)]


def text(names, rows):
    """The lines of a table for a terminal."""
    cells = [row.cells() for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells)]
    return "\n".join(line(row, names, widths, LEFT) for row in (names, *cells))


def write(stem, header, rows, yardsticks, rounds):
    """Files: Markdown to read, CSV of both tables and of every round to compute with; seconds, fractions, rates."""
    with open(f"{stem}.md", "w") as file:
        file.write("# Scaling on one machine\n\n" + "\n".join(f"- {line}" for line in header) + "\n\n")
        file.writelines(markdown(heads(rounds), [row.cells() for row in rows]))
        file.write("\n")
        file.writelines(markdown(yardstick_heads(rounds), [row.cells() for row in yardsticks]))
    with open(f"{stem}.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["batch", "transport", "grid", "step_s", "speedup", "low", "high", "halo_percent", "grad_percent"])
        for row in rows:
            ratio = (median(row.speedups), *interval(row.speedups, median)) if row.speedups else ("", "", "")
            out.writerow([*dataclasses.astuple(row.case), row.step(), *ratio, row.percent("halo"), row.percent("grad")])
    with open(f"{stem}-yardsticks.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["yardstick", "ranks", "unit", "round", "one", "all"])
        for row in yardsticks:
            for i, many in enumerate(row.many):
                out.writerow([row.name, row.ranks, row.unit, i + 1, row.one[i] if row.one else "", many])
    with open(f"{stem}-rounds.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["batch", "transport", "grid", "round", "outcome", "step_s", "halo_fraction", "grad_fraction"])
        for row in rows:
            for i, result in enumerate(row.results):
                out.writerow([*dataclasses.astuple(row.case), i + 1, result.outcome, result.step, result.halo, result.grad])
