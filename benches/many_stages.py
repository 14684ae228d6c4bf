#!/usr/bin/env python3
"""Files of many stages, and a store with a long history, for benches/many_stages.sh. Standard library only.

usage: many_stages.py files FOLDER STAGES        file.yaml (that many stages), matrix.yaml and list.yaml (one stage that
                                                 becomes as many), small.yaml (one stage)
       many_stages.py history STORE RUNS         repeats the only run of a store, and its claim, until it has that many:
                                                 each with an id of its own and a sound journal
"""
import hashlib
import json
import pathlib
import sys
import time


def files(folder, stages):
    head = "version: 1\nname: {}\nstages:\n"
    values = ", ".join(map(str, range(stages)))
    texts = {
        "file": "".join(f"  s{n}: {{uses: noop, with: {{value: {n}}}}}\n" for n in range(stages)),
        "matrix": f"  s:\n    uses: noop\n    with: {{value: \"${{{{ matrix.n }}}}\"}}\n"
        f"    matrix: {{n: [{values}]}}\n",
        "list": "  s:\n    uses: noop\n    with: {value: \"${{ item }}\"}\n"
        f"    for_each: {{cap: {stages}, items: [{values}]}}\n",
        "small": "  s: {uses: noop, with: {value: -1}}\n",
    }
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(head.format(name) + text)


def history(store, runs):
    (run,) = (path for path in store.glob("runs/*/*") if path.is_dir())
    (claim,) = (path for path in store.glob("plans/*/*/*") if path.is_file())
    batches = [path.read_bytes() for path in sorted((run / "journal").iterdir())]
    for number in range(1, runs):
        # Earlier than the run that is repeated, so that ids sort as the claims do.
        begun = time.strftime("%Y%m%d-%H%M%S", time.gmtime(time.time() - 60 * number))
        name = f"{begun}-{number:07x}"
        folder = store / "runs" / f"{name[:4]}-{name[4:6]}" / name / "journal"
        folder.mkdir(parents=True)
        before = hashlib.sha256()
        for at, batch in enumerate(batches):
            header, events = batch.replace(run.name.encode(), name.encode()).split(b"\n", 1)
            header = json.loads(header) | {"sha256_before": before.hexdigest()}
            batch = json.dumps(header, separators=(",", ":")).encode() + b"\n" + events
            before.update(batch)
            (folder / f"{at:010}").write_bytes(batch)
        again = claim.read_bytes().replace(run.name.encode(), name.encode())
        (claim.parent / f"{runs - number:010}").write_bytes(again)


if __name__ == "__main__":
    what, place, count = sys.argv[1:]
    {"files": files, "history": history}[what](pathlib.Path(place), int(count))
