import sys
from pathlib import Path

import numpy as np
import pytest

from apm_lab.errors import ConfigError, EndpointError
from apm_lab.language.protocols import Embedder, Ready
from apm_lab.language.remote.embedder import OpenAiEmbedder
from apm_lab.language.remote.patience import Patience

sys.path.insert(0, str(Path(__file__).parent))
from misbehaving import Endpoint


def embedder(endpoint, **values):
    made = OpenAiEmbedder("served", endpoint.address, **{"api_key_env": None, "batch_size": 4} | values)
    made.endpoint.patience = Patience(first_s=0.005, most_s=0.05)
    return made


def vectors(body):
    rows = [{"index": place, "embedding": [float(len(text)), 0.5]} for place, text in enumerate(body["input"])]
    return {"data": rows[::-1]}


def test_each_text_has_its_own_vector_whatever_the_order_of_the_answer():
    texts = ["x" * length for length in range(1, 31)]
    with Endpoint(vectors, faults={"fails": 0.3, "cut_json": 0.2}) as endpoint:
        made = embedder(endpoint)
        found = made.embed(texts)
    assert isinstance(made, Embedder)
    assert isinstance(made, Ready)
    assert found.dtype == np.float32
    assert found.tolist() == [[float(length), 0.5] for length in range(1, 31)]
    assert max(len(body["input"]) for body in endpoint.bodies) == 4


def test_nothing_is_no_request():
    with Endpoint(vectors) as endpoint:
        assert embedder(endpoint).embed([]).shape == (0, 0)
    assert not endpoint.bodies


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "no list `data`"),
        ({"data": [{"index": 0, "embedding": [1.0]}]}, "1 embeddings for 2"),
        ({"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]}, "longer than another"),
        ({"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [float("nan")]}]}, "not finite"),
        ({"data": [{"index": 0, "embedding": []}, {"index": 1}]}, "no list of numbers"),
    ],
)
def test_what_are_no_vectors_is_told(data, said):
    with Endpoint(lambda _: data) as endpoint, pytest.raises(EndpointError, match=said):
        embedder(endpoint).embed(["a", "b"])


def test_a_missing_key_is_named(monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    with Endpoint(vectors) as endpoint, pytest.raises(ConfigError, match="MY_KEY"):
        embedder(endpoint, api_key_env="MY_KEY").ready()
