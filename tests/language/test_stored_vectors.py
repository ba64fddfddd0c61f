import numpy as np
import pytest

from apm_lab.data.store import Store
from apm_lab.errors import DataError
from apm_lab.language.hashed_encoder import HashedEncoder
from apm_lab.language.protocols import Embedder
from apm_lab.language.recall import CallCounts
from apm_lab.language.stored_vectors import StoredVectors


class Lengths:
    """Gives a text's length and first letter."""

    engine = "simulated"

    def __init__(self, identity="lengths@1"):
        self.identity, self.asked = identity, []

    def embed(self, texts):
        self.asked.append(list(texts))
        return np.array([[len(text), ord(text[0])] for text in texts], dtype=np.float64).reshape(-1, 2)


@pytest.fixture
def shelf(tmp_path):
    return Store(tmp_path / "store").vectors


def test_a_text_is_embedded_once_and_rows_come_in_order(shelf):
    encoder, counts = Lengths(), CallCounts()
    stored = StoredVectors(encoder, shelf, counts)
    assert isinstance(stored, Embedder)
    found = stored.embed(["aa", "b", "aa"])
    assert found.dtype == np.float32
    assert found.tolist() == [[2, 97], [1, 98], [2, 97]]
    assert stored.embed(["ccc", "b"]).tolist() == [[3, 99], [1, 98]]
    assert encoder.asked == [["aa", "b"], ["ccc"]]
    assert (counts.asked, counts.made, counts.hits) == (5, 3, 2)
    assert (counts.bytes_written, counts.bytes_read) == (3 * 8, 1 * 8)


def test_another_run_finds_them_and_another_encoder_does_not(shelf):
    StoredVectors(Lengths(), shelf, CallCounts()).embed(["a", "b"])
    again, counts = Lengths(), CallCounts()
    assert StoredVectors(again, shelf, counts).embed(["b", "a"]).tolist() == [[1, 98], [1, 97]]
    assert (again.asked, counts.made) == ([], 0)
    other = Lengths("lengths@2")
    StoredVectors(other, shelf, CallCounts()).embed(["a"])
    assert other.asked == [["a"]]


def test_vectors_are_kept_as_they_come(shelf, monkeypatch):
    monkeypatch.setattr("apm_lab.language.stored_vectors._AT_ONCE", 2)
    encoder = Lengths()
    given = encoder.embed

    def breaks(texts):
        if "e" in texts:
            raise OSError("gone")
        return given(texts)

    encoder.embed = breaks
    with pytest.raises(OSError, match="gone"):
        StoredVectors(encoder, shelf, CallCounts()).embed(list("abcdef"))
    again = Lengths()
    assert len(StoredVectors(again, shelf, CallCounts()).embed(list("abcdef"))) == 6
    assert again.asked == [["e", "f"]]


def test_vectors_that_are_none_are_not_kept(shelf):
    encoder = Lengths()
    encoder.embed = lambda texts: np.full((len(texts), 2), np.nan)
    with pytest.raises(DataError, match="lengths@1 gave numbers that are not finite"):
        StoredVectors(encoder, shelf, CallCounts()).embed(["a"])
    assert shelf.count() == 0


def test_vectors_of_other_lengths_than_stored_ones_are_refused(shelf):
    StoredVectors(Lengths(), shelf, CallCounts()).embed(["a"])
    encoder = Lengths()
    encoder.embed = lambda texts: np.zeros((len(texts), 3))
    with pytest.raises(DataError, match=r"lengths@1 gave vectors of different lengths: \[2, 3\]"):
        StoredVectors(encoder, shelf, CallCounts()).embed(["a", "b"])


def test_nothing_asked_and_half_of_a_surrogate_pair(shelf):
    stored = StoredVectors(HashedEncoder(16), shelf, CallCounts())
    assert stored.embed([]).shape == (0, 16)
    assert len({*StoredVectors(Lengths(), shelf, CallCounts()).keys(["\ud800", "\udc00", "?"])}) == 3
