#!/usr/bin/env python3
"""Measures views of large artifacts and runs as whole commands of trainyard. Standard library only, Linux.

usage: measure.py PROGRAM --folder FOLDER [--only preview,open,search,top,lineage] [--rounds 9] [--cores 2] [--small]
                  [--report] [--record NAME --state TEXT]

  preview   rows of a table of 10,000,000 rows (`artifacts show`)
  open      one row of a table of chats of 200 MB (`artifacts show --row`)
  search    texts and expressions in 1,000,000 messages (`search`), and their index
  top       CPU time and memory of `top` on a finished and on a live run of 10,000 stages, 30 s each, three times
  lineage   one item of runs of 1,000 stages, back and forward (`artifacts lineage`)

The stores are made by the program with its own stages, once, and stay in FOLDER (a few GB), where a later call with
another program finds them; remove a store's folder to make it again. Results are appended to FOLDER/results.json as
they come; those that are there, with the same program and sizes, are not measured again. `--report` prints them and
measures nothing. `--record NAME` appends them to benches/records/views.toml as the series NAME; `--state` says whether
the machine was idle. Fails if a command fails or prints something wrong; a goal that is missed is only printed.

A run of a minute or two on small stores: measure.py PROGRAM --folder /tmp/views --small
"""
import os
import sys
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / folder) for folder in ("measuring", "data_plane")]

import stores  # noqa: E402
from cases import CASES, OF, SMALL, Measurement, Sizes  # noqa: E402
from program import Failed, Program  # noqa: E402
from series import Subject  # noqa: E402
from session import Results, Session  # noqa: E402

SUBJECT = Subject(
    name="views",
    title="Large artifacts and runs",
    summary="preview, rows, search, lineage and `top`",
    text="""
Whole commands on stores that `benches/views/stores.py` makes, with their files in the memory of the machine. `top`
draws on a terminal of 120 × 40; its CPU time is the share of one core. "Slowest" is the slowest run, or the largest
value.
""",
    what="view",
)
SESSION = Session(CASES, {case: [*sizes, "rounds"] for case, sizes in OF.items()}, SUBJECT)


def arguments():
    parser = SESSION.parser(__doc__)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--cores", type=int, default=2)
    args = SESSION.parsed(parser)
    if args.rounds is not None and args.rounds < 1:
        parser.error("--rounds is at least 1")
    return args


def facts(bench):
    rounds, seconds = bench.sizes.rounds, bench.sizes.seconds
    return {
        "n": f"medians of {rounds} runs after one that is not counted, 3 of long ones; `top`: 3 times {seconds} s",
        "made_by": sorted(stores.makers(bench.folder) - {bench.program.version}),
    }


def main():
    args = arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.cores])
    sizes = SMALL if args.small else Sizes()
    sizes = replace(sizes, rounds=args.rounds) if args.rounds else sizes
    try:
        bench = Measurement(Program(args.program, args.folder), args.folder, sizes)
        return SESSION.run(args, bench, Results(args.folder / "results.json"), facts(bench))
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
