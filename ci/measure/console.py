"""What people type and what they see while a script runs."""

import os
import sys


def positive(text):
    """A number of at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def positives(parser, option, text):
    """Such numbers, joined by commas."""
    try:
        return [positive(n) for n in text.split(",")]
    except ValueError:
        parser.error(f"{option}: expected numbers of at least 1, joined by commas, got {text}; correct it")


def show_progress(text):
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text[:os.get_terminal_size(2).columns - 1]}")
        sys.stderr.flush()
