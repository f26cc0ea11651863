"""Running the cases of windows that are not trailing.

Each attempt takes a case and its aggregates and asserts the expected answers. Where the public name
does not exist yet it fails with AttributeError, which is what ``test_cases`` expects of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mta
from case_vocabulary import Case, as_times, problems, typed_columns
from kinds import build, read


def _length(ticks: int | None) -> str | None:
    return None if ticks is None else f"{ticks}i"


def _by(case: Case) -> Any:
    return case.spec.get("by")


def _assert_same(case: Case, got: list[dict], expected: list[dict]) -> None:
    wrong = problems(case, got, expected)
    assert not wrong, f"{case.id}: {case.what}\n" + "\n".join(wrong)


def _sorted(lines: list[dict]) -> list[dict]:
    def place(line: dict) -> tuple:
        return line["start"], line["end"], str(line.get("key")), line.get("revision", 1)

    return sorted(lines, key=place)


def _extents(case: Case) -> Any:
    """The spec of the hopping or tumbling windows, without its aggregates."""
    spec = case.spec
    options = {name: spec[name] for name in ("closed", "empty") if name in spec}
    if "offset" in spec:
        options["origin"] = spec["offset"]
    slide = spec.get("slide", spec["range"])
    return mta.hopping(
        _length(spec["range"]), slide=_length(slide), on="ts", by=_by(case), **options
    )


def here(spec: Any, columns: dict) -> list[dict]:
    """The answers of the local engine."""
    return read(spec(build("pyarrow", columns)))


def hopping(case: Case, aggs: dict, run: Any = here) -> None:
    """Batch answers; a case may list only some windows and totals over all of them."""
    got = run(_extents(case).agg(**aggs), typed_columns(case))
    if isinstance(case.expected, list):
        _assert_same(case, _sorted(got), _sorted(case.expected))
    else:
        _assert_some(case, got)
    if run is here and isinstance(case.expected, dict) and "max_rows_held" in case.expected:
        _check_rows_held(case, _extents(case).agg(**aggs))


def _check_rows_held(case: Case, spec: Any) -> None:
    """Pushed one by one, rows go when the windows that hold them are answered."""
    columns = typed_columns(case)
    operator, held = spec.watermark(delay="0i").stream(plan="rows"), []
    for i in range(len(case.rows)):
        operator.push(build("pyarrow", {n: (t, v[i : i + 1]) for n, (t, v) in columns.items()}))
        held.append(operator.state()["rows"])
    assert max(held) <= case.expected["max_rows_held"]


def _assert_some(case: Case, got: list[dict]) -> None:
    by_end = {line["end"]: line for line in got}
    wanted = case.expected["windows_at"]
    _assert_same(case, [by_end.get(line["end"], {}) for line in wanted], wanted)
    filled = [line for line in got if line["count"]]
    assert len(filled) == case.expected["nonempty_windows"]
    assert sum(line["count"] for line in filled) == case.expected["sum_of_all_counts"]
    assert sum(line["sum"] for line in filled) == case.expected["sum_of_all_sums"]


def calendar(case: Case, aggs: dict, run: Any = here) -> None:
    """Days of a time zone; edges come back as instants."""
    spec = mta.calendar(
        "1 day", at=f"{case.spec['at']}s", tz=case.spec["tz"], on="ts", by=_by(case)
    )
    got = run(spec.agg(**aggs), as_times(case, typed_columns(case), ", UTC"))
    for line in got:
        line["hours"] = (line["end"] - line["start"]).total_seconds() / 3600
        line.update({edge: int(line[edge].timestamp()) for edge in ("start", "end")})
    _assert_same(case, _sorted(got), _sorted(case.expected))


def count_hop(case: Case, aggs: dict, run: Any = here) -> None:
    """An answer after every ``slide`` rows of a key."""
    spec = mta.rolling(case.spec["range"], on="ts", by=_by(case), every=case.spec["slide"])
    got = run(spec.agg(**aggs), typed_columns(case))
    _assert_same(case, got, [{k: v for k, v in e.items() if k != "after_n"} for e in case.expected])


def snapshot(case: Case, aggs: dict) -> None:
    """A step function of time."""
    spec = mta.snapshots(_length(case.spec["range"]), on="ts", by=_by(case)).agg(**aggs)
    _assert_same(case, read(spec(build("pyarrow", typed_columns(case)))), case.expected)


def stream_spec(case: Case, aggs: dict, delay: int | None) -> Any:
    """Windows whose rows may be late."""
    spec = _extents(case).agg(**aggs)
    sources = {"source": "src", "sources": case.spec["sources"]} if "sources" in case.spec else {}
    spec = spec.watermark(delay=_length(delay), combine=case.spec.get("combine", "min"), **sources)
    lateness = case.spec.get("allowed_lateness")
    return spec.late("revise", within=_length(lateness)) if lateness else spec.late("drop")


def stream(case: Case, aggs: dict) -> None:
    """Rows and punctuations in the order of arrival."""
    spec = stream_spec(case, aggs, case.spec.get("watermark_delay"))
    for size in (1, 2, 3, len(case.rows)):
        _stream_in_chunks(case, spec, size)
    _check_reports(case, spec)


def _stream_in_chunks(case: Case, spec: Any, size: int) -> None:
    events = list(_events(case, spec, size))
    outputs = [line for _, more, _ in events for line in more]
    assert_streamed(case, outputs, read(events[-1][0].late()) if events else [])


def _check_reports(case: Case, spec: Any) -> None:
    """The watermark after every event, and how many windows of keys have a state."""
    if "watermark_after_each_event" in case.expected:
        told = [
            "end" if event == "end" else operator.state()["watermark"]
            for operator, _, event in _events(case, spec, 1)
        ]
        assert told == case.expected["watermark_after_each_event"]
    if "peak_live_windows" in case.expected:
        live = [
            operator.state()["partials"] for operator, _, _ in _events(case, spec, 1, plan="wid")
        ]
        assert max(live) <= case.expected["peak_live_windows"]
        assert live[-1] == case.expected["final_live_windows"]


def _events(case: Case, spec: Any, size: int, **options: Any) -> Iterator[tuple[Any, list, str]]:
    """Rows and punctuations as they come: the stream, its answers, and what it was."""
    operator, columns = spec.stream(**options), typed_columns(case)
    if "sources" in case.spec:
        columns = {"src": ("string", [None] * len(case.rows))} | columns
    punctuations = sorted(case.punctuations, key=lambda p: p["after"])
    places = {0, len(case.rows), *(p["after"] for p in punctuations)}
    arrived = 0
    if punctuations and punctuations[0]["after"] == 0:  # rows of no number say what a time is
        operator.push(build("pyarrow", {name: (kind, []) for name, (kind, _) in columns.items()}))
    for stop in sorted(places):
        while arrived < stop:
            until = min(arrived + size, stop)
            rows = {n: (t, v[arrived:until]) for n, (t, v) in columns.items()}
            yield operator, read(operator.push(build("pyarrow", rows))), "rows"
            arrived = until
        for punctuation in [p for p in punctuations if p["after"] == stop]:
            operator, more = _punctuate(operator, spec, punctuation)
            yield operator, more, punctuation["type"]


def assert_streamed(case: Case, outputs: list[dict], late: list[dict], ordered=True) -> None:
    """The answers, in their order or in any, and the late rows are the expected ones."""
    order = list if ordered else _sorted
    _assert_same(case, order(outputs), order(case.expected["outputs"]))
    told = [{"ts": row["ts"], "why": "late"} for row in late]
    expected = [{"ts": row["ts"], "why": row["why"]} for row in case.expected.get("dropped", [])]
    _assert_same(case, told, expected)


def _punctuate(operator: Any, spec: Any, event: dict) -> tuple[Any, list[dict]]:
    if event["type"] == "restore":
        return spec.stream(state=_saved[id(spec)]), []
    if event["type"] == "checkpoint":
        _saved[id(spec)] = operator.to_bytes()
        return operator, []
    if event["type"] == "watermark":
        return operator, read(operator.advance(event["value"], source=event.get("src")))
    if event["type"] == "idle":
        return operator, read(operator.idle(event["src"]))
    return operator, read(operator.finish()) if event["type"] == "end" else []


_saved: dict[int, bytes] = {}


def interval_join(case: Case, aggs: dict) -> None:
    """Pairs of rows of two sides, as a set."""
    spec = mta.interval_join(
        _length(case.spec["lo"]), _length(case.spec["hi"]), on="ts", by="key", how=case.spec["how"]
    )
    sides = {s: [row for row in case.rows if row["side"] == s] for s in "LR"}
    frames = [build("pyarrow", typed_columns(case._replace(rows=rows))) for rows in sides.values()]
    pairs = {(line["l"], line["r"]) for line in read(spec(*frames))}
    assert pairs == {(line["l"], line["r"]) for line in case.expected["outputs"]}


ATTEMPTS = {
    "hopping": hopping,
    "tumbling": hopping,
    "calendar": calendar,
    "count_hop": count_hop,
    "snapshot": snapshot,
    "stream": stream,
    "interval_join": interval_join,
}
