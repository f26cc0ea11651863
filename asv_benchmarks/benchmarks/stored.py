"""Windows whose nodes live on a store, beside the same window in memory."""

from __future__ import annotations

from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from numpy.typing import NDArray

from asv_benchmarks.data import Recipe
from asv_benchmarks.suite import Axes, Point, Runner, Subject
from mta import agg, fifo

URLS = {
    "dict": "memory:",
    "files": "file://{}?sync=never",
    "LMDB": "lmdb://{}?sync=never",
    "RocksDB": "rocksdb://{}?sync=never",
}


class StoredWindows(Subject):
    place = 18
    title = "Windows on a store: the last N rows, by AMTA"
    note = (
        "memory: fifo.AMTA. All others: fifo.StoredAMTA with blocks of 64 KiB, written and read "
        "ahead in the background, by URL; CPU of all threads, opening, filling and closing the "
        "window included. No disk is forced (but by RocksDB for its tables), as its speed is not "
        "ours; kill −9 loses nothing that was flushed all the same."
    )
    axes: ClassVar[Axes] = {"aggregate": ("sum", "max"), "window": (2**16, 2**20)}

    def data(self, rows: int, point: Point) -> Recipe:
        return Recipe(rows)

    def rows_of(self, rows: int) -> int:
        return 4 * rows

    def runners(self, point: Point) -> tuple[Runner, ...]:
        aggregate, keep = getattr(agg, point["aggregate"])("x"), point["window"]
        return (
            Runner("memory", "arrays", lambda frame: in_memory(aggregate, keep, frame["x"])),
            *(Runner(name, "arrays", on_store(aggregate, keep, url)) for name, url in URLS.items()),
        )


def in_memory(aggregate: Any, keep: int, x: NDArray[Any]) -> Any:
    return fifo.AMTA(aggregate, type="float").slide(x, keep)


def on_store(aggregate: Any, keep: int, url: str) -> Callable[[Any], Any]:
    def call(frame: Any) -> Any:
        with (
            TemporaryDirectory() as folder,
            fifo.StoredAMTA(aggregate, url.format(f"{folder}/store")) as window,
        ):
            return window.slide(frame["x"], keep)

    return call
