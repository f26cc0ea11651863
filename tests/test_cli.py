"""``python -m spark_bridge``: what it computes, what it refuses and how it says so."""

from __future__ import annotations

import io
import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark.sql", reason="the [spark] extra is not installed")

import mta
from mta import agg
from mta.errors import DataError, SpecError
from spark_bridge import cli
from spark_bridge.console import Progress

PAYMENTS = """\
paid_at,card,amount,note
2026-01-01 08:00:00,7,10.5,a
2026-01-01 20:00:00,7,20,b
2026-01-02 09:00:00,7,5,c
2026-01-01 09:00:00,8,50,d
2026-01-01 08:30:00,8,,e
"""
DAY = ["--on", "paid_at", "--by", "card", "--window", "24h"]
TOTAL = ["--agg", "n=count", "--agg", "total=sum:amount", "--agg", "std:amount,ddof=0"]


@pytest.fixture
def payments(tmp_path):
    path = tmp_path / "payments.csv"
    path.write_text(PAYMENTS)
    return path


@pytest.fixture
def run(spark, capsys):
    """Runs the command line in the session of the tests: exit code, output, errors."""

    def call(*arguments):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            code = leaving.code
        return code, *capsys.readouterr()

    return call


def spec_of(*arguments):
    options = cli.make_parser().parse_args(["--input", "x", *arguments])
    return cli.make_spec(options)


def test_help_starts_no_spark():
    done = subprocess.run(
        [sys.executable, "-m", "spark_bridge", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0
    for option in ("--input", "--output", "--by", "--on", "--window", "--agg"):
        assert option in done.stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count", ("count", agg.count())),
        ("n=count", ("n", agg.count())),
        ("sum:amount", ("amount_sum", agg.sum("amount"))),
        ("p=std:amount,ddof=0", ("p", agg.std("amount", ddof=0))),
        (
            "max:x y,nan=greatest,min_count=2",
            ("x y_max", agg.max("x y", nan="greatest", min_count=2)),
        ),
    ],
)
def test_aggregates_are_read(text, expected):
    assert cli.parse_agg(text) == expected


def test_arguments_make_the_spec_that_python_makes():
    spec = spec_of(
        *("--window", "6h", "--on", "t", "--by", "a,b", "--by", "c", "--closed", "left"),
        *("--lag=-30m", "--min-periods", "3", "--agg", "n=count"),
    )
    expected = mta.rolling(
        "6h", on="t", by=["a", "b", "c"], closed="left", lag="-30m", min_periods=3
    ).agg(n=agg.count())
    assert spec == expected


@pytest.mark.parametrize(("text", "range"), [("1000", 1000), ("rows 1000", 1000), ("all", None)])
def test_windows_of_rows(text, range):
    spec = spec_of("--window", text, "--lag", "2", "--agg", "count")
    assert spec == mta.rolling(range, lag=2).agg(agg.count())


def test_two_answers_of_one_name_are_refused():
    with pytest.raises(SpecError, match="named 'n'"):
        spec_of("--window", "all", "--agg", "n=count", "--agg", "n=sum:x")


@pytest.mark.parametrize(
    ("path", "format"),
    [("a.parquet", "parquet"), ("s3a://b/c.CSV", "csv"), ("d/*.csv.gz", "csv"), ("e.tsv", "csv")],
)
def test_formats_are_told_by_the_suffix(path, format):
    assert cli.guess_format(path) == format


def test_formats_are_told_by_what_a_directory_holds(tmp_path):
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(DataError, match="--format"):
        cli.guess_format(str(tmp_path))
    (tmp_path / "part-0.snappy.parquet").touch()
    assert cli.guess_format(str(tmp_path)) == "parquet"


@pytest.mark.spark
def test_csv_in_and_parquet_out(run, payments, tmp_path):
    output = tmp_path / "features.parquet"
    code, said, log = run(
        "--input", payments, "--output", output, *DAY, "--closed", "left", *TOTAL, "--show", 9
    )
    assert code == 0, log
    assert f"5 rows written to {output} (parquet)" in said
    assert "|2026-01-02 09:00:00|7   |5.0   |c   |1  |20.0 |" in said
    assert "computing: done" in log
    made = pq.read_table(output)
    assert made["paid_at"].type == pa.timestamp("us")  # no zone in, none out
    expected = mta.rolling("24h", on="paid_at", by="card", closed="left").agg(
        n=agg.count(), total=agg.sum("amount"), amount_std=agg.std("amount", ddof=0)
    )(made)
    assert made.select(["n", "total", "amount_std"]).equals(expected)


@pytest.mark.spark
def test_parquet_in_and_csv_out(run, tmp_path):
    rides = pd.DataFrame({"tick": [1, 9, 4, 6], "my fare": [10, 40, 20, 30]})
    rides.to_parquet(tmp_path / "rides.parquet")
    output = tmp_path / "totals.csv"
    code, _, log = run(
        *("--input", tmp_path / "rides.parquet", "--output", output),
        *("--window", "5i", "--on", "tick", "--agg", "s=sum:my fare"),
    )
    assert code == 0, log
    made = pd.concat(pd.read_csv(part) for part in output.glob("*.csv"))
    assert dict(zip(made["tick"], made["s"], strict=True)) == {1: 10, 4: 30, 6: 50, 9: 70}


@pytest.mark.spark
def test_times_written_in_another_way(run, tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("when;who\n01.02.2026 10:00;1\n02.02.2026 11:00;1\n")
    arguments = ("--input", path, "--option", "sep=;", "--on", "when", "--window", "7d")
    told = ("--option", "timestampFormat=dd.MM.yyyy HH:mm")
    code, said, _ = run(*arguments, *told, "--agg", "n=count", "--show", 2)
    assert code == 0
    assert "|2026-02-02 11:00:00|1  |2  |" in said
    code, _, log = run(*arguments, "--agg", "n=count", "--show", 2)
    assert (code, log.count("\n")) == (2, 1)
    assert "'when' is text: '01.02.2026 10:00' could not be read as a time" in log


@pytest.mark.spark
def test_explain_computes_nothing(run, payments, tmp_path):
    output = tmp_path / "features.parquet"
    code, said, _ = run("--input", payments, "--output", output, *DAY, *TOTAL, "--explain")
    assert code == 0
    assert "mta.rolling('1d', on='paid_at', by='card')" in said
    assert "ArrowEvalPython" in said
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*DAY, "--agg", "n=count"], "--output is needed, or --show, or --explain"),
        ([*DAY, "--show", "1"], "the following arguments are required: --agg"),
        ([*DAY, "--show", "1", "--agg", "modus:amount"], "no aggregate 'modus'; known: all, any,"),
        ([*DAY, "--show", "1", "--agg", "sum"], "the name of a column is needed"),
        ([*DAY, "--show", "1", "--agg", "std:amount,dof=0"], "no option 'dof'"),
        ([*DAY, "--show", "1", "--agg", "a=b=c"], "is not like n=count"),
        (["--window", "24h", "--show", "1", "--agg", "count"], "--on: a window of '1d' needs"),
        (["--window", "0", "--show", "1", "--agg", "count"], "--window: must be positive"),
        (["--window", "24x", "--on", "t", "--show", "1", "--agg", "count"], "unknown unit 'x'"),
        ([*DAY, "--closed", "top", "--show", "1", "--agg", "count"], "invalid choice: 'top'"),
        ([*DAY, "--show", "1", "--agg", "count", "--option", "sep"], "is not like key=value"),
    ],
)
def test_wrong_arguments_are_one_line(run, payments, arguments, message):
    code, said, log = run("--input", payments, *arguments)
    assert (code, said, log.count("\n")) == (2, "", 1)
    assert log.startswith("python -m spark_bridge: error: ") and message in log


def test_paths_are_looked_at_first(run, payments, tmp_path):
    wanted = (*DAY, "--agg", "n=count")
    code, _, log = run("--input", tmp_path / "none.csv", *wanted, "--show", 1)
    assert code == 2 and "there is no" in log
    code, _, log = run("--input", payments, *wanted, "--output", tmp_path)
    assert code == 2 and "exists; --overwrite replaces it" in log
    for output in (payments, tmp_path):
        code, _, log = run("--input", payments, *wanted, "--output", output, "--overwrite")
        assert code == 2 and "is what is read" in log
    assert payments.read_text() == PAYMENTS


@pytest.mark.spark
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*DAY, "--agg", "sum:amuont"], "no column 'amuont'"),
        ([*DAY, "--agg", "sum:note"], "can't use column 'note', a string"),
        ([*DAY, "--agg", "amount=count"], "'amount' is a column of the input"),
        (["--on", "note", "--window", "1h", "--agg", "count"], "'note' is text: 'a' could not"),
        (["--by", "crad", "--window", "2", "--agg", "count"], "--by: no column 'crad'"),
    ],
)
def test_wrong_columns_are_one_line(run, payments, tmp_path, arguments, message):
    code, said, log = run("--input", payments, "--output", tmp_path / "out", *arguments)
    assert (code, said, log.count("\n")) == (2, "", 1)
    assert message in log
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_a_failed_job_is_one_line_and_leaves_nothing(run, payments, tmp_path):
    payments.write_text(PAYMENTS.replace("2026-01-01 20:00:00", ""))
    code, said, log = run("--input", payments, "--output", tmp_path / "out", *DAY, *TOTAL)
    assert (code, said) == (2, "")
    assert "computing: failed" in log
    last = log.splitlines()[-1]
    assert last.startswith("python -m spark_bridge: error: --on: column 'paid_at' is null")
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_progress_adds_lines_to_a_log(spark):
    log = io.StringIO()
    with Progress(spark, "counting", log):
        spark.range(1000).repartition(2).count()
    assert "\x1b" not in log.getvalue()
    last = log.getvalue().splitlines()[-1]
    assert last.startswith("counting: done (stages: ") and last.endswith(" s")


@pytest.mark.spark
def test_progress_rewrites_one_line_of_a_terminal(spark):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    log = Terminal()
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"), Progress(spark, "counting", log):
        spark.range(1000).selectExpr("1 / (id - 10)").collect()
    assert log.getvalue().count("\n") == 1
    assert log.getvalue().split("\r\x1b[K")[-1].startswith("counting: failed (stages: ")
