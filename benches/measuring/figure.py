"""Values of one measured thing."""
import statistics
from dataclasses import dataclass


@dataclass
class Figure:
    """Values of one measured thing, the value that is its goal at most, and the largest process."""

    view: str
    unit: str
    values: list
    goal: float | None = None
    max_rss_mib: float | None = None

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def is_missed(self):
        return self.goal is not None and self.median > self.goal


def number(value):
    """A number with three digits or more, and no more than two decimals."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def shown(figure):
    """The line of a figure on the terminal."""
    missed = f"  missed, goal {figure.goal} {figure.unit}" if figure.is_missed else ""
    memory = f"  {figure.max_rss_mib:>6,} MiB" if figure.max_rss_mib is not None else ""
    values = f"{number(figure.median):>8} {figure.unit:<4} largest {number(max(figure.values)):>8}"
    return f"{figure.view:<64} {values} of {len(figure.values)}{memory}{missed}"
