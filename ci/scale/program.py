"""shardmark's programs as child processes: suites written, their cases run one by one, their table read."""

import csv
import dataclasses
import io
import json
import os
import subprocess

# A suite says everything else: what the environment sets of its keys would win over it.
KEPT = ("SHARDMARK_LAUNCHER", "SHARDMARK_RANK_PROGRAM")
INTERRUPTED = 130
# The grid of one rank.
ALONE = "1x1x1x1"


class Failed(Exception):
    """shardmark ended without what it was started for."""


@dataclasses.dataclass(frozen=True)
class Case:
    """What tells the cases of a suite apart."""

    batch: int
    transport: str
    grid: str

    def __str__(self):
        return f"batch={self.batch} transport={self.transport} grid={self.grid}"

    @classmethod
    def of_line(cls, line):
        """The case of a case line."""
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        return cls(int(words["batch"]), words["transport"], words["grid"])


@dataclasses.dataclass(frozen=True)
class Result:
    """How a case ended; seconds of a step, and the fractions of it in exposed communication, if it ended well."""

    outcome: str
    message: str = ""
    step: float | None = None
    halo: float | None = None
    grad: float | None = None


class Programs:
    def __init__(self, folder):
        self.shardmark = folder / "shardmark"
        self.rank = os.environ.get("SHARDMARK_RANK_PROGRAM") or folder / "shardmark-rank"
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("SHARDMARK_") or name in KEPT}

    def check(self, suite):
        """Refuses a suite with a mistake, with what shardmark says about it."""
        self.ask([self.shardmark, "list", suite])

    def parameter_bytes(self, line):
        """Bytes of the parameters of a case line's network."""
        return json.loads(self.ask([self.rank, "memory", line]))["parameter_bytes"]

    def run(self, suite, case, results):
        """Runs a case of a suite in a process of its own. However it ends, the folder has a record of it."""
        command = [self.shardmark, "run", suite, "--results", results]
        for key, value in dataclasses.asdict(case).items():
            command += ["--where", f"{key}={value}"]
        done = self.start(command)
        if done.returncode == INTERRUPTED:
            raise KeyboardInterrupt
        # Without a record, it is not the case that failed.
        if done.returncode == 2:
            raise Failed(done.stderr.strip())

    def results(self, folder):
        """What a folder of results holds, by case."""
        rows = csv.DictReader(io.StringIO(self.ask([self.shardmark, "table", folder, "--format", "csv"])))
        return {Case.of_line(row["line"]): result(row) for row in rows}

    def ask(self, command):
        done = self.start(command)
        if done.returncode != 0:
            raise Failed(done.stderr.strip() or f"{command[0]}: expected exit code 0, got {done.returncode}")
        return done.stdout

    def start(self, command):
        return subprocess.run([str(word) for word in command], env=self.environment, capture_output=True, text=True)


def result(row):
    """A line of shardmark's table; a time of a case that did not end well is none."""
    if row["outcome"] != "ok":
        return Result(row["outcome"], row["message"])
    number = {name: float(row[name]) if row[name] else None
              for name in ("step_s", "halo_exposed_fraction", "grad_exposed_fraction")}
    return Result("ok", "", *number.values())


def write_suite(path, keys):
    """A suite file; a list of values multiplies out to cases."""
    path.write_text("# Written by ci/scaling.\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
