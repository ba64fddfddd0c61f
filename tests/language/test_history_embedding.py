import numpy as np
import pytest

from apm_lab.errors import DataError
from apm_lab.language.history_embedding import history_embeddings


class Table:
    """Gives the vectors of a table, and says which texts it was asked for."""

    engine, identity = "simulated", "table@1"

    def __init__(self, vectors):
        self.vectors, self.asked = vectors, []

    def embed(self, texts):
        self.asked.append(list(texts))
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


def test_the_mean_of_unit_vectors_by_hand():
    encoder = Table({"a": (3, 4), "b": (10, 0), "c": (0, 0), "d": (-2, 0)})
    found = history_embeddings(encoder, [("a", "b"), ("b", "c"), ("b", "d"), ("c", "c")])
    # (.6, .8) + (1, 0) = (1.6, .8), of length .8 sqrt 5; opposite ones cancel; zero stays zero
    expected = [(2 / 5**0.5, 1 / 5**0.5), (1, 0), (0, 0), (0, 0)]
    assert found.dtype == np.float32
    assert found == pytest.approx(np.array(expected), abs=1e-6)
    assert len(encoder.asked) == 1


def test_one_text_of_all_prompts():
    encoder = Table({"a\n\nb": (3, 4), "c": (0, 0)})
    found = history_embeddings(encoder, [("a", "b"), ("c",)], "concat")
    assert found == pytest.approx(np.array([(0.6, 0.8), (0, 0)]), abs=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "concat"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            lambda texts: [[1.0, np.nan]] * len(texts),
            "table@1 gave numbers that are not finite, first for the text 'a'",
        ),
        (lambda texts: [[1.0, np.inf]] * len(texts), "table@1 gave numbers that are not finite"),
        (lambda texts: [[1.0]] * (len(texts) + 1), r"table@1 gave vectors of shape \(3, 1\) for 2 texts"),
        (lambda texts: [1.0] * len(texts), r"table@1 gave vectors of shape \(2,\)"),
    ],
)
def test_an_encoder_that_gives_something_else_is_named(pooling, given, said):
    encoder = Table({})
    encoder.embed = given
    with pytest.raises(DataError, match=said):
        history_embeddings(encoder, [("a",), ("b",)], pooling)
