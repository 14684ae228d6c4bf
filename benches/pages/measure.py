#!/usr/bin/env python3
"""Measures the pages for a browser. Standard library only, Linux.

usage: measure.py PROGRAM --folder FOLDER [--only artifact,stages,graph,rollout,watchers,events,runs] [--small]
                  [--report] [--record NAME --state TEXT]

  artifact  first response and compressed size of the pages of a table of 10,000,000 rows
  stages    the same of the page of a run of 10,000 stages
  graph     the same of the graph of 5,000 stages in 50 fan-outs
  rollout   the same of parts of a rollout of 33,000 messages, the number of their elements, and the longest frame while
            they scroll and the longest task since they began to load if the path has `chromium`
  watchers  what 200 open pages add to the CPU seconds of a run: five pairs, in turn
  events    the time from an event of a run to its message on an open page
  runs      the memory of `serve` with 10,000 runs

The stores are made by the program, once, and stay in FOLDER; those of `artifact` and `stages` are the stores of
benches/views, so both may use one folder. 10,000 runs take a quarter of an hour to make; an interrupted call continues.
Results are appended to FOLDER/pages.json as they come, and those that are there are not measured again. `--record NAME`
appends them to benches/records/pages.toml as the series NAME; `--state` says whether the machine was idle. Fails if a
command fails or a page is wrong; a goal that is missed is only printed.

A run of a minute or two on small stores: measure.py PROGRAM --folder /tmp/pages --small
"""
import sys
from pathlib import Path

BENCHES = Path(__file__).resolve().parent.parent
sys.path += [str(BENCHES / folder) for folder in ("measuring", "views", "data_plane")]

import stores  # noqa: E402
from measurements import MEASUREMENTS, OF, SMALL, Bench, PageSizes  # noqa: E402
from program import Failed, Program  # noqa: E402
from series import Subject  # noqa: E402
from session import Results, Session  # noqa: E402

SUBJECT = Subject(
    name="pages",
    title="Pages",
    summary="first response, size, events, watchers, memory",
    text="""
Requests over loopback to `trainyard pages` (`serve` for 10,000 runs), on stores that the program made, with their files
in the memory of the machine. "New server" is the first request after the start; times are until the first byte.
""",
    what="page",
)
SESSION = Session(MEASUREMENTS, OF, SUBJECT)


def facts(bench):
    return {
        "n": f"medians of {bench.sizes.rounds} new servers; {bench.sizes.pairs} pairs of runs for the watchers",
        "made_by": sorted(stores.makers(bench.folder) - {bench.program.version}),
    }


def main():
    args = SESSION.parsed(SESSION.parser(__doc__))
    try:
        bench = Bench(Program(args.program, args.folder), args.folder, SMALL if args.small else PageSizes())
        return SESSION.run(args, bench, Results(args.folder / "pages.json"), facts(bench))
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
