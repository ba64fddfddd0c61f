"""A stage that is killed in the middle of its calls loses those in flight and no other."""

import subprocess
import sys
from pathlib import Path

import pytest

from apm_lab.data.store import Store

sys.path.insert(0, str(Path(__file__).parents[1] / "language" / "remote"))
from misbehaving import Endpoint, wait_until

pytestmark = pytest.mark.slow

CALLS, CONCURRENCY = 1500, 16
STAGE = f"""
import sys
from apm_lab.data.store import Store
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.recall import CallCounts, StoredTexts
from apm_lab.language.remote.openai import OpenAiModel
from apm_lab.records import Message

address, path = sys.argv[1:]
model = OpenAiModel("served", address, api_key_env=None, concurrency={CONCURRENCY})
calls = [GenerationCall((Message("user", f"prompt {{n}}"),), 0) for n in range({CALLS})]
texts = StoredTexts(model, Store(path).texts, CallCounts()).generate(calls)
assert texts == [f"answer to prompt {{n}}" for n in range({CALLS})]
"""


def stage(endpoint, store):
    return subprocess.Popen([sys.executable, "-c", STAGE, endpoint.address, str(store)])


def test_a_kill_loses_at_most_the_calls_in_flight(tmp_path):
    store = tmp_path / "store.sqlite"
    with Endpoint(latency_s=0.02) as endpoint:
        lost = 0
        for share in (0.2, 0.5, 0.8):
            process = stage(endpoint, store)
            wanted = share * CALLS + lost
            wait_until(lambda wanted=wanted: sum(endpoint.answered.values()) > wanted)
            process.kill()
            assert process.wait() == -9
            wait_until(lambda: endpoint.at_once == 0)
            kept, sent = Store(store).texts.count(), sum(endpoint.answered.values())
            assert 0 <= sent - kept - lost <= 2 * CONCURRENCY  # in flight, and answered but not yet taken
            lost = sent - kept
        assert stage(endpoint, store).wait() == 0
        assert Store(store).texts.count() == CALLS
        assert sum(endpoint.answered.values()) - CALLS == lost
