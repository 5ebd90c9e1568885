"""Tables of measurements by rounds, and their intervals."""

import random

RESAMPLES = 2000


def interval(rounds, statistic):
    """95 % interval of a statistic of the rounds: percentile bootstrap. Of fewer than 6 rounds it is least and greatest."""
    rng = random.Random(1)
    values = sorted(statistic(rng.choices(rounds, k=len(rounds))) for _ in range(RESAMPLES))
    return values[round(0.025 * RESAMPLES)], values[round(0.975 * RESAMPLES) - 1]


def milliseconds(value):
    """Two decimals, or more for what is short."""
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def line(cells, names, widths, left):
    """A row of text; the columns named in `left` stand left, the others (numbers) right."""
    padded = (cell.ljust(w) if n in left else cell.rjust(w) for cell, n, w in zip(cells, names, widths))
    return "  ".join(padded).rstrip()


def markdown(names, rows):
    """The lines of a table for a page."""
    return ["| " + " | ".join(cells) + " |\n" for cells in (names, ["---"] * len(names), *rows)]
