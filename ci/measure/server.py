"""A timing server as a child process: shardmark's or PyTorch's."""

import pathlib
import subprocess
import time


class Refused(Exception):
    """A server's answer to what it cannot do."""


class Ended(Exception):
    """A server that is no more."""


class Server:
    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, request):
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code = self.process.wait()
            raise Ended(f"{self.name}: expected an answer to `{request}`, got its end (exit code {code}); see above, or memory")
        if answer.startswith("error: "):
            raise Refused(f"{self.name}: {answer.removeprefix('error: ')}")
        return answer

    def run(self, after=0):
        """Runs the prepared case once and gives its seconds, when the server has come to rest: nothing that it does after
        its answer may disturb the next one. `after`: seconds of runs that come before and do not count."""
        seconds = float(self.ask(f"run after={after}" if after else "run"))
        self.rest()
        return seconds

    def rest(self, look=0.006, limit=0.5):
        """Waits until no thread of the server spins (OpenMP's do for some milliseconds). A look is longer than the clock
        tick at which Linux adds up what a running thread has used."""
        end = time.monotonic() + limit
        used, before = self.cpu_seconds(), None
        while used != before and time.monotonic() < end:
            time.sleep(look)
            used, before = self.cpu_seconds(), used

    def cpu_seconds(self):
        """Processor time of all threads so far; zero where the system does not tell it."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        total = 0
        for task in tasks.glob("*/schedstat"):
            try:
                total += int(task.read_text().split()[0])
            except OSError:
                # The thread has just ended.
                continue
        return total * 1e-9

    def peak_memory(self):
        """Largest resident memory so far in bytes; None where the system does not tell it."""
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return None
        lines = (line.split() for line in status.splitlines())
        return next((int(words[1]) * 1024 for words in lines if words[:1] == ["VmHWM:"]), None)

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
