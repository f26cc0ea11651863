"""What all benchmarks share: profiles, axes, runners, and how asv sees them.

A subject is a class with axes (aggregate, window …); at each point of them it names its runners:
us and the peers, each a function of the frame that it is given. Defining the class is enough to
have it in asv, in the comparison and in the tests.
"""

from __future__ import annotations

import itertools
import os
import pkgutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from asv_benchmarks.peers import installed

US = "mta"
AGGREGATES = ("sum", "mean", "max", "std")
WINDOWS = (16, 2**10, 2**16, 2**20)

Axes = dict[str, tuple[Any, ...]]
Point = dict[str, Any]


@dataclass(frozen=True)
class Profile:
    """rows : of the input; repeats : of every measurement, of which the least counts."""

    rows: int
    repeats: int


PROFILES = {
    "quick": Profile(2**20, 2),
    "default": Profile(2_000_000, 5),
    "full": Profile(8_000_000, 7),
}


class Data(Protocol):
    """Rows that can be had as several kinds of frame."""

    def frame(self, kind: str) -> Any: ...

    def spiked(self) -> Data: ...


@dataclass(frozen=True)
class Runner:
    """Who runs what, on which kind of frame. Runners of one frame are compared."""

    name: str
    frame: str
    call: Callable[[Any], Any]

    @property
    def label(self) -> str:
        return f"{US} on {self.frame}" if self.name == US else self.name

    @property
    def available(self) -> bool:
        return installed(self.name) and installed(self.frame)


def duel(
    peer: str, frame: str, ours: Callable[[Any], Any], theirs: Callable[[Any], Any]
) -> tuple[Runner, Runner]:
    """The two runners of a comparison."""
    return Runner(peer, frame, theirs), Runner(US, frame, ours)


class Subject(ABC):
    """One table of the comparison, and one class of asv."""

    title: ClassVar[str]
    note: ClassVar[str] = ""
    place: ClassVar[int]  # of its table among the others
    per_row: ClassVar[bool] = True  # there is an answer for every row
    axes: ClassVar[Axes]
    registry: ClassVar[list[type[Subject]]] = []

    # Read by asv. CPU time, so that other processes of the machine count as little as they can.
    timer = time.process_time
    timeout: ClassVar[float] = 300.0
    number: ClassVar[int] = 1

    @property
    def params(self) -> list[list[Any]]:
        labels = [runner.label for runner in self.runners(next(self.points()))]
        return [*map(list, self.axes.values()), labels]

    @property
    def param_names(self) -> list[str]:
        return [*self.axes, "runner"]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Subject.registry.append(cls)

    @classmethod
    def points(cls) -> Iterator[Point]:
        """Every combination of the axes."""
        for values in itertools.product(*cls.axes.values()):
            yield dict(zip(cls.axes, values, strict=True))

    @abstractmethod
    def data(self, rows: int, point: Point) -> Data:
        """The input at a point."""

    @abstractmethod
    def runners(self, point: Point) -> tuple[Runner, ...]:
        """Us and the peers at a point: the same runners at every one."""

    def fits(self, rows: int, point: Point) -> bool:
        """Whether the window slides over so few rows, rather than only fill."""
        return bool(point["window"] < rows)

    def rows_of(self, rows: int) -> int:
        """How many of the profile's rows to take."""
        return rows

    def answers(self, runner: Runner, result: Any) -> NDArray[np.float64]:
        """The answers that a runner returned, in the order of the input."""
        if isinstance(result, dict):
            result = next(reversed(result.values()))
        elif hasattr(result, "columns"):
            result = result[list(result.columns)[-1]]
        return np.asarray(result, dtype=np.float64)

    def setup(self, *params: Any) -> None:
        """Make the input, or tell asv that there is nothing to measure here."""
        *values, label = params
        point = dict(zip(self.axes, values, strict=True))
        rows = self.rows_of(asv_profile().rows)
        runner = next(r for r in self.runners(point) if r.label == label)
        if not (runner.available and self.fits(rows, point)):
            raise NotImplementedError
        self.call = runner.call
        self.frame = self.data(rows, point).frame(runner.frame)

    def time_call(self, *params: Any) -> None:
        self.call(self.frame)


def asv_profile() -> Profile:
    """The profile that the environment asks for."""
    return PROFILES[os.environ.get("MTA_BENCH_PROFILE", "quick")]


def subjects() -> list[type[Subject]]:
    """Every subject of ``benchmarks/``, in the order of their tables."""
    package = import_module("asv_benchmarks.benchmarks")
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        import_module(module.name)
    return sorted(Subject.registry, key=lambda subject: subject.place)
