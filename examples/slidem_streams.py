"""The streams of the SlideM paper, made up (seeded): calls of a call centre, and trades."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = dict[str, NDArray[Any]]

ATTRIBUTES = (
    "alertingTime", "busyTime", "wrapUpTime", "waitTime", "helpTime", "availableTime",
)  # fmt: skip
KEYS = {
    "instance": 2, "serviceId": 200, "agentId": 12_000, "mediaId": 5,
    "interactionLegId": 10_000, "agentSite": 20, "callSite": 20, "direction": 2,
}  # fmt: skip
"""What is grouped by, and how many groups. The paper states 12,000 agents, 20 sites, and 10,000
groups in a window; the others are guesses."""

_LONGS = ("timestamp", "start")
_BOOLEANS = ("agentReleased", "finalSegment")
_OTHERS = ("sessionId", "mediaOutcome", "availableTimeByService", "held", "help")
_LONGEST = 600  # seconds, of a part of a call

SYMBOLS = 100
ROW_OF_TRADE = 28  # bytes


def calls(first: int, rows: int, rate: float) -> Rows:
    """Rows [first, first + rows) of AgentInteractions (Figure 12), 94 bytes each, `rate` a second.

    Groups are drawn evenly. Columns that no KPI reads are all zero.
    """
    rng = np.random.default_rng(first)
    number = np.arange(first, first + rows)
    made: Rows = {"timestamp": (number * 1000 / rate).astype(np.int64).view("M8[ms]")}
    made |= {key: rng.integers(0, n, rows, dtype=np.int32) for key, n in KEYS.items()}
    made |= {name: rng.integers(0, _LONGEST, rows, dtype=np.int32) for name in ATTRIBUTES}
    made["start"] = np.zeros(rows, np.int64)
    made |= {name: np.zeros(rows, np.bool_) for name in _BOOLEANS}
    return made | {name: np.zeros(rows, np.int32) for name in _OTHERS}


class Trades:
    """An endless stream of trades, `rate` a second: symbols in turn, prices and volumes random."""

    def __init__(self, rate: int, most: int = 1 << 20) -> None:
        rng = np.random.default_rng(4)
        self.rate = rate
        self.symbols = (np.arange(most + SYMBOLS) % SYMBOLS).astype(np.int32)
        self.prices = rng.uniform(1.0, 500.0, 2 * most)
        self.volumes = rng.integers(1, 1000, 2 * most).astype(np.float64)
        self.most = most

    def rows(self, first: int, rows: int) -> Rows:
        """Rows [first, first + rows): at most `most`. But for the times these are views."""
        number = np.arange(first, first + rows)
        at, turn = first % self.most, first % SYMBOLS
        return {
            "ts": (number * 1_000_000 // self.rate).view("M8[us]"),
            "symbol": self.symbols[turn : turn + rows],
            "price": self.prices[at : at + rows],
            "volume": self.volumes[at : at + rows],
        }
