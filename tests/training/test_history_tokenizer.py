import pytest

from apm_lab.errors import DataError
from apm_lab.training.history_tokenizer import HistoryTokenizer, shared_cut

HISTORIES = [("The cat sat.", "the cat RAN!"), ("the dog sat", "ＴＨＥ dog")]


def words(tokenizer, row):
    return [tokenizer.backend.id_to_token(token) for token in row]


def test_words_are_normalised_framed_and_rare_ones_share_an_entry():
    tokenizer = HistoryTokenizer.train(HISTORIES, "word", vocab_size=100, min_frequency=2)
    rows, cut = tokenizer.encode([("The CAT, ran", "dog"), ("",), ()], max_tokens=32)
    assert words(tokenizer, rows[0]) == ["[CLS]", "the", "cat", "[UNK]", "[UNK]", "[SEP]", "dog", "[SEP]"]
    assert words(tokenizer, rows[1]) == ["[CLS]", "[SEP]"]
    assert words(tokenizer, rows[2]) == ["[CLS]"]
    assert cut == 0
    # the (4 times, one of them full-width), cat, sat, dog and 4 special entries
    assert tokenizer.size == 8


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_training_twice_gives_the_same_file(kind):
    files = {HistoryTokenizer.train(HISTORIES, kind, 60, 1).to_json() for _ in range(2)}
    assert len(files) == 1


def test_json_and_frame_bring_it_back():
    tokenizer = HistoryTokenizer.train(HISTORIES, "bpe", 60, 1)
    again = HistoryTokenizer.of_frame(tokenizer.to_json(), tokenizer.frame())
    assert again.encode(HISTORIES, 16) == tokenizer.encode(HISTORIES, 16)
    assert (again.pad_id, again.start, again.end) == (tokenizer.pad_id, tokenizer.start, tokenizer.end)


@pytest.mark.parametrize(
    ("lengths", "budget", "cut"),
    [
        ([3, 10, 8], 21, 10),  # all fit
        ([3, 10, 8], 20, 9),  # 3 + 9 + 8: the longest gives way first
        ([3, 10, 8], 18, 7),
        ([3, 10, 8], 9, 3),
        ([5, 5], 1, 0),
        ([4], -2, 0),
        ([], 5, 0),
    ],
)
def test_the_longest_prompts_are_cut_first(lengths, budget, cut):
    assert shared_cut(lengths, budget) == cut


def test_long_histories_keep_a_part_of_every_prompt():
    tokenizer = HistoryTokenizer.train(HISTORIES, "word", 100, 1)
    rows, cut = tokenizer.encode([("cat " * 50, "dog " * 4), ("cat", "dog")], max_tokens=12)
    assert words(tokenizer, rows[0]) == ["[CLS]", *["cat"] * 5, "[SEP]", *["dog"] * 4, "[SEP]"]
    assert cut == 1


def test_a_tokenizer_without_a_fast_backend_is_refused():
    class Slow:
        name_or_path = "some/model"

    with pytest.raises(DataError, match="some/model: Slow has no fast"):
        HistoryTokenizer.of_pretrained(Slow())
