"""The benchmark of the client measures what it says."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from misbehaving import Endpoint

BALLAST_MB = 400


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
def test_memory_is_that_of_the_calls_whatever_the_process_held_before(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "bench")
    client = importlib.import_module("client")
    ballast = b"x" * (BALLAST_MB * 2**20)
    with Endpoint(models=("m",)) as endpoint:
        first, last = client.memory(endpoint.address, 200)
    assert 10 < first <= last < BALLAST_MB < client.peak()
    assert len(ballast) >> 20 == BALLAST_MB
