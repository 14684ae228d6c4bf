"""Writes the figures of a measurement as a series of benches/records, which benches/report reads."""
import importlib.util
import json
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path

from figure import number
from program import Failed

BENCHES = Path(__file__).resolve().parent.parent
COLUMNS = ("median", "slowest", "goal", "largest process")


@dataclass(frozen=True)
class Subject:
    """A file of benches/records: its name, title and summary, the text below each series, the name of its first
    column."""

    name: str
    title: str
    summary: str
    text: str
    what: str

    def head(self):
        return f"title = {json.dumps(self.title)}\nsummary = {json.dumps(self.summary)}\n"


def report():
    """The program benches/report as a module."""
    loader = SourceFileLoader("report", str(BENCHES / "report"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("report", loader))
    loader.exec_module(module)
    return module


def measured(figure, value):
    return f"{number(value)}, unit = {json.dumps(figure.unit)}"


def records(figure):
    """The records of a figure, one for each column that it has."""
    cells = {"median": measured(figure, figure.median)}
    if len(figure.values) > 1:
        cells["slowest"] = measured(figure, max(figure.values))
    if figure.goal is not None:
        cells["goal"] = f"{figure.goal}, unit = {json.dumps(figure.unit)}"
    if figure.max_rss_mib is not None:
        cells["largest process"] = f'{figure.max_rss_mib}, unit = "MiB"'
    row = json.dumps(figure.view, ensure_ascii=False)
    return [f'    {{ row = {row}, column = "{column}", value = {cell} }},\n' for column, cell in cells.items()]


def notes(figures, made_by):
    """The goals that are missed, and the programs that made stores if they are others than the measured one."""
    missed = [figure.view for figure in figures if figure.is_missed]
    text = f"Goals that are missed: {'; '.join(missed)}." if missed else "All goals are met."
    others = ", ".join(f"`{version}`" for version in made_by)
    return f"{text} Stores were made by {others}." if made_by else text


def series(subject, name, facts, figures):
    """The text of a series. `facts` are `date`, `commit`, `machine`, `n`, `command` and `made_by`."""
    lines = [f"{key} = {json.dumps(facts[key], ensure_ascii=False)}\n" for key in ("commit", "machine", "n", "command")]
    rows = "".join(line for figure in figures for line in records(figure))
    below = report().wrapped(notes(figures, facts["made_by"]))
    return (
        f"\n[[series]]\nname = {json.dumps(name, ensure_ascii=False)}\ndate = {facts['date']}\n{''.join(lines)}"
        f'text = """{subject.text}"""\nwhat = "{subject.what}"\ncolumns = {json.dumps(COLUMNS)}\nrecords = [\n{rows}]\n'
        f'notes = """\n{below}\n"""\n'
    )


def append(subject, name, facts, figures, folder=BENCHES / "records"):
    """Appends a series to the records of the subject, whose file it begins if there is none. Returns the path."""
    path = folder / f"{subject.name}.toml"
    known = path.read_text() if path.exists() else subject.head()
    if f"name = {json.dumps(name, ensure_ascii=False)}\n" in known:
        raise Failed(f"{path} has a series of the name {name!r}; choose another")
    path.write_text(known + series(subject, name, facts, figures))
    return path
