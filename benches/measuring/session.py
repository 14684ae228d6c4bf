"""Measures the cases of a bench, keeps their results in a file, and records them."""
import argparse
import datetime
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import series
from figure import Figure, shown
from program import Failed


class Results:
    """The results so far, by case, program and sizes."""

    def __init__(self, path):
        self.path = path
        self.all = json.loads(path.read_text()) if path.exists() else []

    def find(self, key):
        found = (result for result in self.all if all(result.get(name) == value for name, value in key.items()))
        return next(found, None)

    def add(self, key, figures):
        day = {"date": str(datetime.date.today())}
        self.all.append(key | day | {"figures": [asdict(figure) for figure in figures]})
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.all, indent=1) + "\n")
        os.replace(part, self.path)

    def show(self):
        for result in self.all:
            print(f"{result['date']}, program {result['of']}, {result['case']}: {result['sizes']}")
            print("\n".join(map(shown, figures_of(result))))


def figures_of(result):
    return [Figure(**figure) for figure in result["figures"]]


@dataclass(frozen=True)
class Session:
    """The cases of a bench, the names of the sizes that each uses, and the subject of its records."""

    cases: dict
    uses: dict
    subject: series.Subject

    def key(self, case, bench):
        sizes = {name: getattr(bench.sizes, name) for name in self.uses[case]}
        return {"case": case, "of": bench.program.digest, "sizes": sizes}

    def measure(self, case, bench, results):
        """Measures a case unless its result is there. Returns whether it succeeded."""
        key, figures = self.key(case, bench), []
        if results.find(key):
            return True
        try:
            for figure in self.cases[case](bench):
                figures.append(figure)
                print(shown(figure), flush=True)
        except Failed as failed:
            print(f"{case}: {failed}", file=sys.stderr, flush=True)
            return False
        results.add(key, figures)
        return True

    def record(self, name, facts, bench, results):
        """Appends all results of this program and these sizes to the records. `facts` are `state` (of the machine), `n`
        and `made_by`."""
        found = [result for result in (results.find(self.key(case, bench)) for case in self.cases) if result]
        days = sorted({result["date"] for result in found})
        if len(days) != 1:
            raise Failed(f"{results.path} has results of {len(days)} days; measure all on one day")
        if bench.program.commit is None:
            raise Failed(f"`{bench.program.path.name} --version` names no commit; build it in a checkout")
        facts = {
            "date": days[0],
            "commit": bench.program.commit[:8],
            "machine": f"{series.report().machine()}, {facts['state']}",
            "n": facts["n"],
            "made_by": facts["made_by"],
            "command": f"benches/{self.subject.name}/measure.py target/release/trainyard --folder FOLDER",
        }
        path = series.append(self.subject, name, facts, [figure for result in found for figure in figures_of(result)])
        print(f"{path}: read the series, add `{self.subject.name}` to `subjects` of index.toml if new, `just report`")

    def parser(self, about):
        """The options that all benches have."""
        parser = argparse.ArgumentParser(description=about.split("\n")[0])
        parser.add_argument("program", type=Path)
        parser.add_argument("--folder", type=Path, required=True)
        parser.add_argument("--only", type=lambda text: text.split(","), default=list(self.cases))
        parser.add_argument("--small", action="store_true", help="small stores, for a run of a minute or two")
        parser.add_argument("--report", action="store_true", help="print the results and measure nothing")
        parser.add_argument("--record", metavar="NAME", help="append the results to the records as this series")
        parser.add_argument("--state", help="state of the machine in the record: `idle`, or what else it did")
        return parser

    def parsed(self, parser):
        """The arguments, checked."""
        args = parser.parse_args()
        if unknown := set(args.only) - set(self.cases):
            parser.error(f"unknown cases {', '.join(sorted(unknown))}; there are {', '.join(self.cases)}")
        if args.record and (args.small or not args.state):
            parser.error("--record takes results of large stores only, and needs --state")
        args.folder = args.folder.resolve()
        args.folder.mkdir(parents=True, exist_ok=True)
        return args

    def run(self, args, bench, results, facts):
        """Does what the arguments say. Returns the exit status."""
        if args.report:
            results.show()
        elif not args.record:
            return 0 if all([self.measure(case, bench, results) for case in args.only]) else 1
        if args.record:
            self.record(args.record, facts | {"state": args.state}, bench, results)
        return 0
