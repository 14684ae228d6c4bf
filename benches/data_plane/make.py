#!/usr/bin/env python3
"""Chats for the measurements of the data plane, and which of them are copies. Standard library only.

usage: make.py FOLDER ROWS [--items 10000]

Writes into FOLDER:
  chats.jsonl   ROWS chats of a question and an answer, 450 bytes each on average
  truth.tsv     row, `exact` or `near`, and the earlier row that it is a copy of
  items.jsonl   evaluation problems; every tenth is the question of a chat
  planted.tsv   item, and the row whose question it is
  made.json     rows, bytes and SHA-256 of chats.jsonl

One row in 20 is an exact copy of an earlier original, and one in 20 a near copy with 5% of its words replaced. Every
row is a function of its number, so a longer file begins with the rows of a shorter one. Of the originals, 1% each have
a link, a phrase of a model that refuses, an answer of three words, and an answer that repeats a phrase; 0.1% have an
answer of more than 4,000 characters.
"""
import argparse
import array
import hashlib
import itertools
import json
import os
import sys
from pathlib import Path

# Parts of the rows in 65,536: the first two bytes of a row's digest.
EXACT, NEAR = 3277, 6554
ONE_PERCENT = 590
LINK, REFUSAL, SHORT, REPEATED = (NEAR + ONE_PERCENT * n for n in range(1, 5))
LONG = REPEATED + ONE_PERCENT // 10
REPLACED = 0.05
HEADER = 6  # Numbers of 16 bits at the start of a digest: kind, place of the source (4), length of the answer.
LONG_WORDS = 1000
COMMON = (
    "the be to of and a in that have it for not on with he as you do at this but his by from they we say her she or an "
    "will my one all would there their what so up out if about who get which go me when make can like time no just him "
    "know take into year your good some could them see other than then now look only come its over think also back "
    "after use two how our work first well way even new want because any these give day most us is are was has"
).split()


def vocabulary():
    """65,536 words, common ones more often, some with a comma or a full stop."""
    starts = "b br c ch d dr f g gr h j k l m n p pl r s st t tr v w".split()
    middles = "a e i o u".split()
    ends = ["", *"n r t l nd st s m ng".split()]
    made = itertools.product(starts, middles, ["l", "m", "t", "v", "rd", "st"], middles, ends)
    words = COMMON + ["".join(parts) for parts in itertools.islice(made, 0, None, 7)]
    shares = [1 / (rank + 4) for rank in range(len(words))]
    total, table = sum(shares), []
    for word, share in zip(words, shares):
        table += [word] * max(1, round(share / total * 65536))
    table = (table * 2)[:65536]
    for at in range(0, 65536, 16):
        table[at] += "."
    for at in range(5, 65536, 32):
        table[at] += ","
    return table


TABLE = vocabulary()


def numbers(name, count):
    """`count` numbers of 16 bits that depend on `name` alone."""
    values = array.array("H", hashlib.shake_128(name).digest(2 * count))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def header(row):
    return numbers(b"%d" % row, HEADER)


def source(row, head):
    """The earlier original that a copy repeats."""
    at = int.from_bytes(head[1:5].tobytes(), sys.byteorder) % row
    while at > 0 and header(at)[0] < NEAR:
        at -= 1
    return at


def original(row):
    """The words of the question and of the answer of an original."""
    head = header(row)
    asked, answered = 13 + head[5] % 6, 34 + head[5] // 8 % 40
    kind = head[0]
    count = asked + (LONG_WORDS if REPEATED <= kind < LONG else answered)
    words = list(map(TABLE.__getitem__, numbers(b"%d" % row, HEADER + count)[HEADER:]))
    question, answer = words[:asked], words[asked:]
    if NEAR <= kind < LINK:
        answer.insert(7, "https://example.org/" + answer[0].strip(".,"))
    elif LINK <= kind < REFUSAL:
        answer[:0] = "As an AI language model I".split()
    elif REFUSAL <= kind < SHORT:
        answer = answer[:3]
    elif SHORT <= kind < REPEATED:
        answer = (answer[:6] * 12)[:len(answer) + 6]
    return question, answer


def replaced(row, question, answer):
    """The words with 5% of them replaced, at places that depend on the row."""
    words = question + answer
    count = max(1, round(len(words) * REPLACED))
    places, drawn = set(), iter(numbers(b"near %d" % row, 64 + 8 * count))
    while len(places) < count:
        at, word = next(drawn) % len(words), TABLE[next(drawn)]
        if at not in places and word != words[at]:
            places.add(at)
            words[at] = word
    return words[:len(question)], words[len(question):]


def made(row):
    """The kind of a row, the row that it copies, its question and its answer."""
    head = header(row)
    if row == 0 or head[0] >= NEAR:
        return "original", row, *original(row)
    at = source(row, head)
    question, answer = original(at)
    if head[0] < EXACT:
        return "exact", at, question, answer
    return "near", at, *replaced(row, question, answer)


def line(question, answer):
    return (
        '{"messages": [{"role": "user", "content": "' + " ".join(question) + '?"}, '
        '{"role": "assistant", "content": "' + " ".join(answer) + '"}]}\n'
    )


def write_chats(folder, rows):
    digest, size = hashlib.sha256(), 0
    with open(folder / "chats.jsonl", "wb") as chats, open(folder / "truth.tsv", "w") as truth:
        for first in range(0, rows, 10_000):
            lines = []
            for row in range(first, min(first + 10_000, rows)):
                kind, at, question, answer = made(row)
                lines.append(line(question, answer))
                if kind != "original":
                    truth.write(f"{row}\t{kind}\t{at}\n")
            data = "".join(lines).encode()
            digest.update(data)
            size += chats.write(data)
    return {"rows": rows, "bytes": size, "sha256": digest.hexdigest()}


def write_items(folder, items, rows):
    with open(folder / "items.jsonl", "w") as file, open(folder / "planted.tsv", "w") as planted:
        for item in range(items):
            at = item * rows // items
            if item % 10 == 0 and header(at)[0] >= LONG:
                question, _ = original(at)
                planted.write(f"{item}\t{at}\n")
            else:
                question = map(TABLE.__getitem__, numbers(b"item %d" % item, 17))
            file.write(json.dumps({"question": " ".join(question) + "?", "answer": str(item)}) + "\n")


def make(folder, rows, items):
    """Writes the files unless they are there with as many rows and items."""
    wanted = {"rows": rows, "items": items, "maker": hashlib.sha256(Path(__file__).read_bytes()).hexdigest()}
    record = folder / "made.json"
    if record.exists():
        known = json.loads(record.read_text())
        if {key: known.get(key) for key in wanted} == wanted:
            return known
    folder.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    facts = wanted | write_chats(folder, rows)
    write_items(folder, items, rows)
    record.with_suffix(".part").write_text(json.dumps(facts) + "\n")
    os.replace(record.with_suffix(".part"), record)
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=int)
    parser.add_argument("--items", type=int, default=10_000)
    args = parser.parse_args()
    print(json.dumps(make(args.folder, args.rows, args.items)))


if __name__ == "__main__":
    main()
