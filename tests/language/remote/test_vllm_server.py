"""A real server, vLLM with SmolLM2, driven through the `openai` backend (`make test-vllm`)."""

import json
import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest

from apm_lab.errors import ConfigError
from apm_lab.language.protocols import ChoiceCall, GenerationCall
from apm_lab.language.remote.openai import OpenAiModel
from apm_lab.records import Message

pytestmark = pytest.mark.vllm

SMOLLM2 = Path(os.environ.get("APM_LAB_MODELS", Path.home() / ".cache/apm_lab/models")) / "smollm2_135m"
RATINGS = tuple(str(rating) for rating in range(1, 11))
STARTS_S = 600
SETTINGS = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Start a server and give its address when it answers."""
    if find_spec("vllm") is None:
        pytest.skip("vLLM is not there: make test-vllm")
    if not SMOLLM2.is_dir():
        pytest.skip("SmolLM2 is not there: make offline-models")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(SMOLLM2)]
    command += ["--served-model-name", "smol", "--dtype", "bfloat16", "--enforce-eager", "--max-model-len", "1024"]
    command += ["--no-enable-chunked-prefill"]  # the CPU build dies of seeds where a prompt is split
    command += ["--generation-config", "vllm", "--host", "127.0.0.1", "--port", str(port)]
    log = tmp_path_factory.mktemp("vllm") / "log"
    with log.open("w") as output:
        server = subprocess.Popen(command, env={**os.environ, **SETTINGS}, stdout=output, stderr=output)
    try:
        end = time.monotonic() + STARTS_S
        while not answers(port):
            assert server.poll() is None and time.monotonic() < end, log.read_text()[-3000:]
            time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(60)


def answers(port):
    try:
        with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/v1/models", timeout=10) as found:
            return found.status == 200
    except OSError:
        return False


def model(address, **values):
    return OpenAiModel("smol", address, **{"api_key_env": None, "max_tokens": 24} | values)


def asked(made, calls):
    found = {answer.place: answer for group in made.log_probabilities(calls) for answer in group}
    return [found[place].value for place in range(len(calls))]


def rating_chat(text):
    """Return a chat that has rated before: a small model needs examples."""
    turns = [Message("system", "Rate from 1 to 10.")]
    for example, rating in (("hey dude", "9"), ("Dear Sir or Madam", "1"), ("yo what's up", "10")):
        turns += [Message("user", f"<text>{example}</text> How casual?"), Message("assistant", rating)]
    return (*turns, Message("user", f"<text>{text}</text> How casual?"))


def test_texts_come_with_their_tokens_and_repeat(address):
    calls = [GenerationCall((Message("user", f"Name a fruit that begins with {letter}."),), 0) for letter in "abcdefgh"]
    made = model(address, temperature=0.7)
    answers = [answer for group in made.stream(calls) for answer in group]
    assert sorted(answer.place for answer in answers) == list(range(8))
    assert all(answer.value and 0 < answer.usage.tokens_out <= 24 < answer.usage.tokens_in for answer in answers)
    texts = [answer.value for answer in sorted(answers, key=lambda answer: answer.place)]
    assert model(address, temperature=0.7).generate(calls) == texts


@pytest.mark.parametrize("guided", ["structured", "json_schema"])
def test_ratings_are_constrained(address, guided):
    calls = [GenerationCall(rating_chat("hi there"), sample, RATINGS) for sample in range(8)]
    texts = model(address, guided=guided).generate(calls)
    assert set(texts) <= set(RATINGS)
    assert len(set(texts)) > 1


def test_two_ways_to_the_same_log_probabilities(address):
    calls = [ChoiceCall(rating_chat(text), RATINGS) for text in ("gimme that", "We hereby inform you")]
    listed, exact = asked(model(address), calls), asked(model(address, logprobs_via="prompt"), calls)
    for one, other in zip(listed, exact, strict=True):
        assert max(abs(a - b) for a, b in zip(one, other, strict=True) if a > -8) < 0.1
        assert sum(a > -8 for a in one) >= 8
        assert other[9] < other[0]  # "10" begins with "1" in this vocabulary


def test_a_long_answer_is_likelier_where_it_fits(address):
    (values,) = asked(
        model(address, logprobs_via="prompt"),
        [
            ChoiceCall(
                (Message("user", "What is the capital of France?"),), ("The capital of France is Paris.", "Hey 😀 you")
            )
        ],
    )
    assert -20 < values[0] < 0
    assert values[1] < values[0]


def test_a_wrong_name_and_a_long_text_are_told(address):
    call = GenerationCall((Message("user", "word " * 3000),), 0)
    with pytest.raises(ConfigError, match="did you mean smol"):
        OpenAiModel("smal", address, api_key_env=None).generate([call])
    with pytest.raises(ConfigError, match="more than the model's context"):
        model(address).generate([call])


def test_a_whole_study_runs_on_it(address, tmp_path):
    command = [sys.executable, "-m", "apm_lab", "+scale=smoke", "router=ngrams", "logger=csv", "pool.size=2"]
    command += ["model=openai", "model.model=smol", f"model.base_url={address}", "model.api_key_env=null"]
    done = subprocess.run(
        [*command, "model.max_tokens=24", "users.test=10", "pool.placement=user"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (file,) = (tmp_path / "outputs" / "personalization").rglob("manifest.json")
    calls = json.loads(file.read_text())["calls"]["model"]
    assert calls["made"] == 10 * 6
    assert calls["tokens_out"] > 60
