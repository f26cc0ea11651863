"""Sliding windows by algorithm: every one of the MTA paper and of its comparisons, by name.

``mta.Window`` picks how a window is kept; here you do, to compare, to reproduce, or because a bound
on the worst step matters. All have one interface (that of `Fifo`): ``insert(value)``, ``evict()``,
``evict_many(n)``, ``evict_while(policy)``, ``query()``, ``len``, ``to_bytes()``, ``from_bytes()``,
and over arrays ``insert_many(array)``, ``slide(array, keep)``, ``slide_while(array, *policies)``
and ``latencies(array, keep)``.

================ =========== =========== =========== ============== ==================
combines         insert      evict       query       evict_many(k)  partials a value
================ =========== =========== =========== ============== ==================
Recompute        0           0           n           0              1
SubtractOnEvict  1           1           0           k              1
TwoStacks        1           1, worst n  1           1, worst n     1
DABA             4 at most   3 at most   1           3 k            2
DABALite         3 at most   2 at most   1           2 k            1
FlatFAT          log n       log n       2 log n     k + 2 log n    2
LogMTA           3 log n     2 log n     1           2 log n        2
AMTA             2 (3 log n) 1 (2 log n) 1           2 log n        2
================ =========== =========== =========== ============== ==================

`StoredAMTA` and `StoredLogMTA` keep all but O(log n) of their partials on a store (`mta.stores`).

Costs without "at most" are upper bounds as well, but for those of AMTA and TwoStacks, which are
amortised, with the worst step beside them; log n is log2 of the window, rounded up. Windows have
no capacity: what holds partials grows by doubling, O(1) amortised an insert. Lists and forests do
so without a copy of what is inside (a table of a pointer per 512 partials is copied); FlatFAT makes
its tree anew, n combines in one step. What a window has had it keeps, for as many values again; a
copy, by ``from_bytes(w.to_bytes(), ...)``, has what its values need.

Partials are those of ``mta.Window``: sums of integers are exact, those of floats compensated. The
values are floats or ints, told by the first one or by ``type=``; None is null. An aggregate of your
own (``agg.monoid``) is called at the address of its compiled functions, where numba compiles them
and none of them can raise, and else through Python (``w.compiled``, ``w.why_python``).

Examples
--------
>>> import numpy as np
>>> from mta import agg, fifo
>>> w = fifo.AMTA(agg.max("x"))
>>> for x in (3.0, 1.0, 4.0, 1.0, 5.0):
...     w.insert(x)
>>> w.evict_many(2)
>>> w.query(), len(w)
(5.0, 3)
>>> fifo.DABA(agg.sum("x")).slide(np.array([1, 2, 3, 4]), keep=2).tolist()
[1, 3, 5, 7]
"""

from __future__ import annotations

from mta._fifo import Fifo
from mta._stored_fifo import StoredFifo
from mta.functions import Aggregate

__all__ = [
    "AMTA",
    "DABA",
    "DABALite",
    "Fifo",
    "FlatFAT",
    "LogMTA",
    "Recompute",
    "StoredAMTA",
    "StoredFifo",
    "StoredLogMTA",
    "SubtractOnEvict",
    "TwoStacks",
]


class Recompute(Fifo):
    """Keeps the values and combines all of them for every answer. The paper's "Naive".

    Combines: insert 0, evict 0, evict_many 0, query n - 1. Memory: a partial a value. No step is
    long but the answer. `evict_while`: one combine per value that goes.
    Villalba, Berral, Carrera, Constant-time sliding window framework with reduced memory footprint
    and efficient bulk evictions (MTA), 2018, §5.

    Examples
    --------
    >>> from mta import agg, fifo
    >>> w = fifo.Recompute(agg.mean("x"))
    >>> for x in (1, 2, 6):
    ...     w.insert(x)
    >>> w.query()
    3.0
    """

    _algorithm = "Recompute"


class SubtractOnEvict(Fifo):
    """Keeps the total: adds what comes and subtracts what goes.

    Only where combine has an exact inverse: counts, and sums and means of integers. Sums of floats
    are refused, as rounding would leave a trace of what has gone; so are min, max, var, and monoids
    of your own.

    Combines: insert 1, evict 1, evict_many(k) k, query 0, none of them ever more. Memory: a partial
    a value. Tangwongsan, Hirzel, Schneider, In-order sliding-window aggregation in worst-case
    constant time, 2021, §3.

    Examples
    --------
    >>> from mta import agg, fifo
    >>> w = fifo.SubtractOnEvict(agg.sum("x"))
    >>> for x in (2**62, 2**62, -5):
    ...     w.insert(x)
    >>> w.evict()
    >>> w.query() == 2**62 - 5
    True
    """

    _algorithm = "SubtractOnEvict"


class TwoStacks(Fifo):
    """A stack to pop, of suffix aggregates, and one to push, with the aggregate of all of it.

    Combines: insert 1, query 1, evict 1 amortised. Stalls: when the front stack is used up, the
    eviction turns the whole back stack, n combines in one step. evict_many(k) costs nothing within
    the front stack, else what is left. Memory: a partial a value ("lite": both stacks in one list);
    twice that with ``keep_values=True``, without which `evict_while` is refused: of suffixes one
    can't make prefixes. Tangwongsan, Hirzel, Schneider, 2021, §3.

    Examples
    --------
    >>> from mta import agg, fifo
    >>> w = fifo.TwoStacks(agg.min("x"))
    >>> for x in (3, 1, 2):
    ...     w.insert(x)
    >>> w.evict_many(2)
    >>> w.query()
    2
    """

    _algorithm = "TwoStacks"

    def __init__(
        self, agg: Aggregate, type: str | None = None, *, keep_values: bool = False
    ) -> None:
        super().__init__(agg, type, keep_values=keep_values)


class DABA(Fifo):
    """De-amortised bankers' aggregator: two stacks that are turned a little with every call.

    Combines, in the worst case: insert 4, evict 3, query 1; evict_many(k) 3 k. No step is longer
    than that, whatever the window; only the table of chunks is copied now and then, a pointer per
    512 partials. Memory: 2 partials a value. Tangwongsan, Hirzel, Schneider, Low-latency
    sliding-window aggregation in worst-case constant time, DEBS 2017; 2021, §4.

    Examples
    --------
    >>> from mta import agg, fifo
    >>> joined = agg.monoid(lift=lambda x: x, combine=lambda a, b: a + b, zero="")
    >>> w = fifo.DABA(joined("word"))
    >>> for word in ("sliding", "window", "s"):
    ...     w.insert(word)
    >>> w.evict()
    >>> w.query()
    'windows'
    """

    _algorithm = "DABA"


class DABALite(Fifo):
    """DABA with one partial a value and two more in all.

    Combines, in the worst case: insert 3, evict 2, query 1; evict_many(k) 2 k; no longer step, as
    with DABA. Memory: a partial a value; twice that with ``keep_values=True``, without which
    `evict_while` is refused. Tangwongsan, Hirzel, Schneider, 2021, §5.

    Examples
    --------
    >>> from mta import agg, fifo
    >>> w = fifo.DABALite(agg.max("x"), keep_values=True)
    >>> for x in (3, 1, 4, 1, 5):
    ...     w.insert(x)
    >>> w.evict_while(lambda total, old: old < total)  # no older than the maximum
    4
    """

    _algorithm = "DABALite"

    def __init__(
        self, agg: Aggregate, type: str | None = None, *, keep_values: bool = False
    ) -> None:
        super().__init__(agg, type, keep_values=keep_values)


class FlatFAT(Fifo):
    """A complete binary tree over a ring of values: the paper's RA, reactive aggregator.

    Combines: insert and evict log2 of the ring, query none, or twice that where the window goes
    round the end of the ring; evict_many(k) k and 2 log2. Stalls: beyond a power of two the tree is
    made anew, n combines in one step (`slide`, and `slide_while` by ``mta.last``, let go of a value
    first where it is full). Memory: 2 partials a place of the ring, whose size is a power
    of two. Tangwongsan, Hirzel, Schneider, Wu, General incremental sliding-window aggregation, VLDB
    2015, §3.

    Examples
    --------
    >>> from mta import agg, fifo
    >>> w = fifo.FlatFAT(agg.sum("x"))
    >>> for x in range(10):
    ...     w.insert(x)
    >>> w.evict_while(lambda total, old: total - old >= 15)  # leaves 15 at least
    8
    """

    _algorithm = "FlatFAT"


class LogMTA(Fifo):
    """Monoid tree aggregator: the dyadic forest, with both sides kept up to the root at every call.

    Combines, in the worst case: insert 3 log2 n, evict and evict_many(k) for any k 2 log2 n, query
    1. No longer step: growing copies a pointer per 512 partials and level. Memory: 2 partials a
    value. Villalba et al., 2018, §4.1.

    Examples
    --------
    >>> from mta import agg, fifo
    >>> w = fifo.LogMTA(agg.std("x"))
    >>> for x in (5.0, 1.0, 3.0):
    ...     w.insert(x)
    >>> w.evict()
    >>> w.query()
    1.4142135623730951
    """

    _algorithm = "LogMTA"


class AMTA(Fifo):
    """Amortised monoid tree aggregator: the dyadic forest of ``mta.Window``.

    Combines: insert 2 amortised (3 log2 n at most), evict 1 amortised (2 log2 n at most),
    evict_many(k) for any k 2 log2 n, query 1. No step is O(n): growing copies a pointer per 512
    partials and level. Memory: 2 partials a value; what has slid over an array of 512 values or
    more has room for as many. The answers are a function of the values inside and of how many have
    come since the window was last empty: however they got there, to the last bit. Villalba et al.,
    2018, §4.2.

    Examples
    --------
    >>> from mta import agg, fifo
    >>> w = fifo.AMTA(agg.sum("x"))
    >>> for x in range(1000):
    ...     w.insert(x)
    >>> w.evict_many(998)
    >>> w.query()
    1997
    """

    _algorithm = "AMTA"


class StoredAMTA(StoredFifo):
    """AMTA with its nodes on a store: memory O(log n), windows as large as the store.

    In memory are the newest two blocks of nodes, the two in which the window begins, and the
    aggregates on both sides: 0.6 MB (sums: 1.1) for every 13 levels, with blocks of 64 KiB. A value
    is written once and read once, a block at a time, ahead of need and behind the caller's back
    where the store does so (`mta.stores.BackgroundStore`; what a URL opens does).

    Combines as `AMTA`, and one a value more when a block is read: its upper nodes are made anew.
    evict_many(k) reads two blocks a tier (of 13 levels) whatever k is, and combines their values,
    evict_while reads as many again for its search.

    A window goes on where it was: open it again by its name on its store, with the same aggregate,
    type and block size; all else is refused. `flush` is the promise; a crash may keep a later
    moment. ``inserted`` says how many values have ever come in, so that the rest can come again. If
    the store fails, the call raises `StoreError` and the window is as it was, and the next call
    tries again. (An array goes in up to where the store failed, see ``inserted``; the error of
    ``slide`` has the ``answers`` of these values.)

    Opening lists the window's keys, takes off what a crash has left, and misses blocks that are not
    there. Emptied windows and nulls that have left leave nothing; without any `flush`, blocks that
    are used no more stay until they are as many as those in use, and 16.

    Villalba et al., 2018, §4.4.

    Examples
    --------
    >>> from mta import agg, fifo
    >>> from mta.stores import MemoryStore
    >>> store = MemoryStore()
    >>> with fifo.StoredAMTA(agg.max("x"), store, block=64) as w:
    ...     for x in range(1000):
    ...         w.insert(float(-x))
    ...     w.evict_many(100)
    ...     w.query(), len(w)
    (-100.0, 900)
    >>> w = fifo.StoredAMTA(agg.max("x"), store, block=64)
    >>> w.inserted, len(w), w.query()
    (1000, 900, -100.0)
    """

    _algorithm = "AMTA"


class StoredLogMTA(StoredFifo):
    """LogMTA with its nodes on a store. All else is said at `StoredAMTA`.

    Examples
    --------
    >>> from mta import agg, fifo
    >>> with fifo.StoredLogMTA(agg.sum("x"), "memory:", type="int") as w:
    ...     for x in range(10):
    ...         w.insert(x)
    ...     w.query()
    45
    """

    _algorithm = "LogMTA"
