"""Chats of benches/data_plane/make.py: files of them, single ones, and how many messages have a match."""
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "data_plane"))
import make  # noqa: E402

MESSAGES = 2  # of a chat: a question and an answer


def write(folder, rows):
    """Writes chats.jsonl unless it is there with as many rows."""
    make.make(folder, rows, 1)


def messages(row):
    """The texts of the question and of the answer of a row."""
    _, _, question, answer = make.made(row)
    return [" ".join(question) + "?", " ".join(answer)]


def matching(rows, patterns):
    """How many messages of the first rows have a match of each regular expression."""
    compiled = {name: re.compile(pattern) for name, pattern in patterns.items()}
    counts = dict.fromkeys(patterns, 0)
    for row in range(rows):
        for text in messages(row):
            for name, pattern in compiled.items():
                counts[name] += pattern.search(text) is not None
    return counts


def unlike_others(rows):
    """The first words of the question of a row in the middle that is no copy."""
    row = next(row for row in range(rows // 2, rows) if make.made(row)[0] == "original")
    return " ".join(messages(row)[0].split()[:6])
