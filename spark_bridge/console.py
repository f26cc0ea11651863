"""A Spark session and progress lines, for programs that people watch or read the log of."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import threading
import time
import uuid
import warnings
from types import TracebackType
from typing import TextIO

from pyspark.sql import SparkSession

# Errors only, already while Spark starts: the level of a running session comes too late for the
# banner. Spark prints "Setting default log level" unless its gateway has a level of its own.
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c: %m%n
"""


def open_session(name: str, master: str | None = None, log_level: str = "ERROR") -> SparkSession:
    """The active Spark session, or a new quiet one whose Python workers run this interpreter.

    Parameters
    ----------
    name : shown as the application's name
    master : where to run; None: what Spark is configured for, else this machine's cores
    log_level : of a new session, once it runs: "FATAL" leaves failures to the exceptions

    Notes
    -----
    A new session keeps time in UTC, so that no time is moved by the zone of the machine.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    if (master or "local").startswith("local"):
        # One machine talks to itself; its host name may resolve to nothing.
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
    session = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_logging_file()}")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel(log_level)
    return session


def _logging_file() -> str:
    handle, path = tempfile.mkstemp(prefix="mta-log4j2-", suffix=".properties")
    with os.fdopen(handle, "w") as file:
        file.write(_LOGGING)
    atexit.register(os.unlink, path)
    return path


class Progress:
    """Tells how far the Spark jobs are that a ``with`` block starts.

    On a terminal one line is rewritten; in a log a line is added when there is news, or when
    there has been none for a while. The last line stays, with the time that all of it took.

    Parameters
    ----------
    spark : the session that runs the jobs
    title : what is being done
    stream : where to write; default standard error
    """

    def __init__(self, spark: SparkSession, title: str, stream: TextIO | None = None) -> None:
        self._context = spark.sparkContext
        self._title = title
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._group = f"mta-{uuid.uuid4()}"
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._started = 0.0

    def __enter__(self) -> Progress:
        self._started = time.monotonic()
        sys.stdout.flush()  # what was said before comes first, also in a log of both streams
        self._context.setJobGroup(self._group, self._title)
        self._watcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._watcher.join()
        self._context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        self._context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
        stages = self._stages()
        tasks = sum(done for _, done in stages)
        verdict = "done" if kind is None else "failed"
        self._write(f"{verdict} (stages: {len(stages)}, tasks: {tasks})", last=True)

    def _watch(self) -> None:
        told, told_at = "", self._started
        least, most = (0.0, 0.0) if self._terminal else (2.5, 10.0)  # seconds between lines
        while not self._over.wait(0.2):
            news, silent = self._news(), time.monotonic() - told_at
            if silent >= most or (news != told and silent >= least):
                self._write(news)
                told, told_at = news, time.monotonic()

    def _news(self) -> str:
        stages = self._stages()
        if not stages:
            return "planning"
        tasks, done = stages[-1]
        return f"stage {len(stages)}, {done} of {tasks} tasks done"

    def _stages(self) -> list[tuple[int, int]]:
        """(tasks, tasks done) of each stage that has been started, in that order."""
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        ids = sorted({stage for job in jobs if job is not None for stage in job.stageIds})
        infos = [info for info in map(tracker.getStageInfo, ids) if info is not None]
        # A stage whose result is still there from an earlier job is listed again, never started.
        begun = [
            info
            for info in infos
            if info.numActiveTasks or info.numCompletedTasks or info.numFailedTasks
        ]
        return [(info.numTasks, info.numCompletedTasks) for info in begun]

    def _write(self, text: str, last: bool = False) -> None:
        line = f"{self._title}: {text}, {time.monotonic() - self._started:.0f} s"
        if self._terminal:
            line = f"\r\x1b[K{line}"
        print(line, end="\n" if last or not self._terminal else "", file=self._stream, flush=True)
