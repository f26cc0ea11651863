"""Partial aggregates on their way from a low-level stage to the windows that take them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mta._frames_bytes import bytes_frame, frame_bytes
from mta._partials import Layout, Partials
from mta.engine import Ticks
from mta.frames import open_frame
from mta.pane_answers import Measures
from mta.pane_rows import no_partials
from mta.periodic import Periodic
from mta.plan import make_plan
from mta.snapshot import refusing_damage, seal, unseal
from mta.specs import Spec

_KIND = "partials"


@dataclass(frozen=True)
class Part:
    """Partials, and how far time had come when they had gone out.

    partials : their codes are rows of the batch's `keys`, their places starts of panes in ticks
    mark : no row before this time is held back any more, nor will come; None: that is not known
    """

    partials: Partials
    mark: int | None


@dataclass(frozen=True)
class PartialBatch:
    """What a low-level stage puts out: partial aggregates by group and pane, and how far time has
    come. ``op.merge(batch)`` takes it, or ``batch.to_bytes()``.

    spec : whose windows it is for
    example : a few rows, for the kind and the types of the data
    keys : the keys of the groups, as data of the same kind; None where the spec has none
    groups : how many
    parts : in this order; one, but where rows were behind windows that had been complete
    ticks : what a tick is
    origin : of windows that begin with the first row
    magnitude : the greatest integer of all rows of the stage so far, without its sign
    """

    spec: Periodic
    example: Any
    keys: Any
    groups: int
    parts: tuple[Part, ...]
    ticks: Ticks
    origin: int | None
    magnitude: int

    def __len__(self) -> int:
        """How many partial aggregates there are."""
        return sum(len(part.partials) for part in self.parts)

    def __repr__(self) -> str:
        return (
            f"PartialBatch({len(self)} partial aggregates of {self.rows} rows, {self.groups} "
            f"groups, watermark {self.watermark})"
        )

    @property
    def rows(self) -> int:
        """Of how many rows they are."""
        return sum(int(part.partials.counts(0).sum()) for part in self.parts)

    @property
    def watermark(self) -> int | None:
        """How far time has come, in ticks: no row before this will be in a later batch. None: that
        is not known."""
        return self.parts[-1].mark if self.parts else None

    @property
    def nbytes(self) -> int:
        """Bytes of memory of partials and keys."""
        keys = 0 if self.keys is None else open_frame(self.keys).nbytes
        return keys + sum(part.partials.nbytes for part in self.parts)

    def to_bytes(self) -> bytes:
        """The batch as bytes: versioned, checksummed, no code inside (needs pyarrow).

        Raises
        ------
        SnapshotError
            A key is an object that Arrow has no type for.
        """
        head = {
            "groups": self.groups,
            "marks": [part.mark for part in self.parts],
            "ticks": asdict(self.ticks),
            "origin": self.origin,
            "magnitude": self.magnitude,
        }
        keys = b"" if self.keys is None else frame_bytes(open_frame(self.keys))
        parts = [piece for part in self.parts for piece in part.partials.to_parts()]
        described = [self.spec.to_json().encode(), json.dumps(head).encode()]
        return seal(_KIND, "", [*described, frame_bytes(open_frame(self.example)), keys, *parts])

    @staticmethod
    def from_bytes(data: bytes) -> PartialBatch:
        """The batch that ``to_bytes`` wrote.

        Raises
        ------
        SnapshotError
            The bytes are damaged, cut short, of a later format, or no batch.
        """
        parts = unseal(_KIND, "", data)
        with refusing_damage():
            return _read(parts)


def batch_layout(measures: Measures, specs: list[tuple[str, int, int, str, str]]) -> Layout:
    """What partials of a batch are made of: every input is counted, in order and last."""
    counts = [("values", 0, number, "", "") for number in range(len(measures.inputs))]
    return Layout([*specs, *counts], len(measures.feeds))


def _read(parts: list[bytes]) -> PartialBatch:
    spec, head = Spec.from_json(parts[0].decode()), json.loads(parts[1])
    plan = make_plan(spec.asked, spec.min_periods or 0)
    if not isinstance(spec, Periodic) or no_partials(plan) is not None:
        raise ValueError("no spec of partial aggregates")
    example, keys = bytes_frame(parts[2]), bytes_frame(parts[3]) if spec.by else None
    columns = {name: example.column(name) for name in plan.columns}
    layout = batch_layout(*Measures.of(plan, columns))
    if keys is not None and keys.rows != head["groups"]:
        raise ValueError("a group has no key")
    made, rest = [], parts[4:]
    for k, mark in enumerate(head["marks"]):
        partials = Partials(layout)
        partials.fill(rest[4 * k : 4 * k + 4], head["groups"])
        made.append(Part(partials, mark))
    native = None if keys is None else keys.take(np.arange(keys.rows))
    return PartialBatch(
        spec, example.take(np.arange(example.rows)), native, head["groups"], tuple(made),
        Ticks(**head["ticks"]), head["origin"], head["magnitude"],
    )  # fmt: skip
