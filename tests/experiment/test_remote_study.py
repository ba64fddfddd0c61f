"""The whole study with one role behind an endpoint, in one command, and what it says when the endpoint fails."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated.responder import SimulatedResponder
from apm_lab.records import Message

sys.path.insert(0, str(Path(__file__).parents[1] / "language" / "remote"))
from misbehaving import Endpoint, completion

KEY = "sk-very-secret-4711"
RESPONDER = SimulatedResponder("served", compliance=0.9, noise=1.0)


def styled(body):
    """Answer as a model that follows its instruction."""
    messages = tuple(Message(turn["role"], turn["content"]) for turn in body["messages"])
    return completion(RESPONDER.generate([GenerationCall(messages, body["seed"])])[0])


def launch(folder, *arguments, key=KEY):
    environment = {**os.environ, "MY_ENDPOINT_KEY": key}
    if key is None:
        del environment["MY_ENDPOINT_KEY"]
    command = [sys.executable, "-m", "apm_lab", "+scale=smoke", "router=ngrams", "logger=csv", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def remote(endpoint, role="model"):
    values = {"model": "served", "base_url": endpoint.address, "api_key_env": "MY_ENDPOINT_KEY", "concurrency": 16}
    return [f"{role}=openai", *(f"{role}.{name}={value}" for name, value in values.items())]


def assert_no_secret(folder, done):
    assert KEY not in done.stdout + done.stderr
    files = [file for file in Path(folder).rglob("*") if file.is_file()]
    assert [file for file in files if KEY.encode() in file.read_bytes()] == []


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Run the study once with a model behind an endpoint that misbehaves now and then."""
    folder = tmp_path_factory.mktemp("remote")
    faults = {"storm": 0.03, "fails": 0.03, "half": 0.03, "cut_json": 0.03}
    with Endpoint(styled, faults, key=KEY) as endpoint:
        done = launch(folder, *remote(endpoint))
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, endpoint, done


def test_one_role_is_remote_and_everything_else_simulated(ended):
    folder, endpoint, done = ended
    (file,) = (folder / "outputs" / "personalization").rglob("manifest.json")
    manifest = json.loads(file.read_text())
    assert manifest["store"]["key_headers"]["model"][:3] == ["generate", "served", "remote"]
    assert manifest["store"]["key_headers"]["generator"][2] == "simulated"
    calls = manifest["calls"]["model"]
    assert calls["made"] == sum(endpoint.answered.values()) > len(endpoint.answered) > 0  # two samples of the twins
    assert (calls["tokens_in"], calls["tokens_out"]) == (11 * calls["made"], 7 * calls["made"])
    assert " on served" in done.stdout
    oracle = next(line for line in done.stdout.splitlines() if line.strip().startswith("routing_oracle"))
    assert float(oracle.split()[1]) > 1.0


def test_the_key_is_nowhere(ended):
    folder, endpoint, done = ended
    assert max(endpoint.asked.values()) > 1  # faults whose messages hold the key have come back
    assert_no_secret(folder, done)


def test_the_same_command_at_another_address_asks_nothing(ended):
    folder, _, _ = ended
    with Endpoint(styled, key=KEY) as other:
        done = launch(folder, *remote(other), "method=routing_oracle")
    assert done.returncode == 0, done.stderr[-3000:]
    assert not other.asked


@pytest.mark.parametrize("role", ["generator", "rewriter"])
def test_other_roles_name_the_fault_of_their_endpoint(tmp_path, role):
    with Endpoint(styled, models=("another",), key=KEY) as endpoint:
        done = launch(tmp_path, *remote(endpoint, role))
    assert done.returncode == 2
    assert "HTTP 404: The model `served` does not exist." in done.stderr
    assert "one of: another" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert_no_secret(tmp_path, done)


def test_a_refused_key_is_one_message_without_the_key(tmp_path):
    with Endpoint(styled, key="another") as endpoint:
        done = launch(tmp_path, *remote(endpoint), "debug=true")
    assert done.returncode != 0
    assert "check the key in MY_ENDPOINT_KEY" in done.stderr
    assert_no_secret(tmp_path, done)


def test_a_missing_key_costs_nothing(tmp_path):
    with Endpoint(styled) as endpoint:
        done = launch(tmp_path, *remote(endpoint), key=None)
    assert done.returncode == 2
    assert "variable MY_ENDPOINT_KEY is not set" in done.stderr
    assert not endpoint.asked


def test_what_an_option_needs_is_named(tmp_path):
    done = launch(tmp_path, "model=openai")
    assert done.returncode == 2
    assert "model.model: missing; expected str" in done.stderr
    assert "model.base_url: missing; expected str" in done.stderr


def test_a_batch_goes_out_and_the_same_command_takes_its_answers(tmp_path):
    arguments = ["model=batch", "model.model=served", "model.folder=batch", "users.test=12", "method=routing_oracle"]
    done = launch(tmp_path, *arguments)
    assert done.returncode == 2
    assert "calls of served wait for answers: batch/calls.jsonl" in done.stderr
    rows = [json.loads(line) for line in (tmp_path / "batch" / "calls.jsonl").read_text().splitlines()]
    with (tmp_path / "batch" / "answers.jsonl").open("w") as answers:
        for row in rows:
            response = {"status_code": 200, "body": styled(row["body"])}
            answers.write(json.dumps({"custom_id": row["custom_id"], "response": response, "error": None}) + "\n")
    done = launch(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    assert " on served" in done.stdout
