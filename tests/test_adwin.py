"""examples/adwin.py finds what changes, soon, and nothing else."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent.parent / "examples" / "adwin.py"


@pytest.fixture(scope="module")
def adwin():
    spec = importlib.util.spec_from_file_location("adwin", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_nothing_changes(adwin):
    x = (np.random.default_rng(1).random(6000) < 0.5).astype(float)
    changes, told = adwin.run(x)
    assert changes == [] and told[-1, 0] == 6000


def test_changes_are_found_and_what_was_before_goes(adwin):
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.random(2000) < odds for odds in (0.2, 0.8, 0.5)]).astype(float)
    changes, told = adwin.run(x)
    for begins in (2000, 4000):
        found = [c for c in changes if begins < c.at < begins + 400]
        assert found and abs(found[-1].before - found[-1].after) > 0.2
    assert not [c for c in changes if c.at <= 2000 or 2400 < c.at <= 4000]
    last = told[-1]
    assert last[0] <= 2100 and abs(last[1] - 0.5) < 0.05
    # The window is what the rows that stayed give.
    assert last[1] == x[len(x) - int(last[0]) :].mean()


def test_the_bound_holds(adwin):
    """Means of two samples of one distribution differ by more once in a while."""
    rng = np.random.default_rng(3)
    samples = rng.random((4000, 200))
    apart = np.abs(samples[:, :80].mean(axis=1) - samples[:, 80:].mean(axis=1))
    limit = adwin.bound(80, 120, 1 / 12, 0.1 * 200)
    assert (apart > limit).mean() < 0.1
    assert adwin.bound(80, 120, 1 / 12, 0.002) > limit > 0


def test_the_script(adwin, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    adwin.main(["--rows", "4000", "--output", str(tmp_path)])
    assert (tmp_path / "adwin.png").stat().st_size > 5000
    assert "rows gone" in capsys.readouterr().out
