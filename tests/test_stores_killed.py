"""kill −9 at any moment: what was flushed is there and whole, and batches are there or not."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from redis_server import DURABLE as ON_DISK
from redis_server import RedisServer
from store_child import after, opened
from store_kinds import DURABLE, contents

CHILD = Path(__file__).with_name("store_child.py")
KILLS = 5


def written_until_killed(kind: str, where: str, seconds: float, child: Path) -> int:
    """Lets a process write, kills it so long after its first flush; its last flushed number."""
    process = subprocess.Popen(
        [sys.executable, child, kind, where],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
        text=True,
    )
    with process:
        told = [process.stdout.readline()]
        time.sleep(seconds)
        process.kill()
        told += process.stdout.readlines()
    # A line that the kill cut short was flushed all the same, but may say another number.
    flushed = [int(line) for line in told if line.endswith("\n")]
    assert flushed, "it never got to its first flush"
    return flushed[-1]


def check(kind: str, where: str, flushed: int) -> int:
    with opened(kind, where) as store:
        found = contents(store)
    number = int(found[b"count"])
    assert number >= flushed
    assert found == after(number)
    return flushed


def killed_often(
    kind: str, folder: Path, kills: int, check: Callable[[str, str, int], int], child: Path = CHILD
) -> None:
    """Kills it again and again, and Redis with it now and then. `check` is given what was flushed,
    and says what has to be exceeded the next time."""
    moments = random.Random(kind)
    server = RedisServer(folder, *ON_DISK) if kind == "redis" else None
    where = f"{server.url} window" if server else str(folder / "store")
    before = 0
    for kill in range(kills):
        flushed = written_until_killed(kind, where, moments.uniform(0, 0.1), child)
        assert flushed > before
        if server and kill % 2:
            server.kill()
            server.start()
            where = f"{server.url} window"
        before = check(kind, where, flushed)
    if server:
        server.kill()


@pytest.mark.parametrize("kind", DURABLE)
def test_killed_while_it_writes(kind, tmp_path):
    killed_often(kind, tmp_path, KILLS, check)
