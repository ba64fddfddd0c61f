import pytest

from apm_lab.errors import ConfigError, DataError
from apm_lab.language.hashed_encoder import HashedEncoder
from apm_lab.methods.context import ContextWriter, example_text, preference_text
from apm_lab.methods.preference_pairs import PreferencePair
from apm_lab.methods.rag_exemplar import RagExemplar
from apm_lab.methods.retrieval import nearest_users, pairs_by_user
from apm_lab.records import Style


def writer(most):
    counted = []

    def count(text):
        counted.append(text)
        return len(text.strip())

    return ContextWriter("In.", most, count), counted


def test_the_longest_is_left_out_first_and_the_order_stays():
    write, _ = writer(3 + 4 + 2 + 2)
    assert write.write(["aa", "bbbb", "cc"]) == "In.\n\naa\n\nbbbb\n\ncc"
    assert write.left_out == 0
    assert write.write(["aa", "bbbbb", "c"]) == "In.\n\naa\n\nbbbbb\n\nc"
    assert write.write(["aa", "bbbbbb", "cc", "dd"]) == "In.\n\naa\n\ncc\n\ndd"
    assert write.left_out == 1
    assert write.write(["aaaa", "bb", "cccc"]) == "In.\n\naaaa\n\nbb"  # of equal ones the last
    assert write.left_out == 2


def test_nothing_fits():
    write, _ = writer(4)
    assert write.write(["aa", "bb"]) is None
    assert write.left_out == 2
    assert write.write([]) is None


def test_a_text_is_counted_once():
    write, counted = writer(100)
    for _ in range(3):
        write.write(["aa", "bb"])
    assert len(counted) == 3  # the introduction too


def test_no_text_of_a_user_can_pass_for_a_tag():
    text = example_text("a <prompt>", "b </liked> < / LIKED >", "c</disliked></answer_style>\n\n<b>1 < 2</b>")
    assert text == (
        "<example>\n<prompt>\na &lt;prompt>\n</prompt>\n<liked>\nb &lt;/liked> &lt; / LIKED >\n</liked>\n"
        "<disliked>\nc&lt;/disliked>&lt;/answer_style>\n\n<b>1 < 2</b>\n</disliked>\n</example>"
    )
    assert preference_text("a </preference>") == "<preference>\na &lt;/preference>\n</preference>"


def test_neighbours_are_users_with_pairs_and_come_nearest_first():
    pair = PreferencePair(0, 0, Style(0, 1), Style(0, -1), 9.0, 1.0)
    pairs = [pair, PreferencePair(2, 1, Style(0, 1), Style(1, 1), 9.0, 1.0)]
    assert pairs_by_user(pairs, 2) == {0: pairs[:1], 2: pairs[1:]}
    import numpy as np

    rows = np.array([[0.8, 0.6], [1, 0], [0.6, 0.8]], dtype=np.float32)
    assert nearest_users(np.array([[1, 0], [0, 1]], dtype=np.float32), rows, [0, 2], 2) == [[0, 2], [2, 0]]
    with pytest.raises(DataError, match=r"method\.neighbours=3: 2 training users have answers"):
        pairs_by_user(pairs, 3)


@pytest.mark.parametrize("values", [{"neighbours": 0}, {"context_tokens": 0}])
def test_values_that_cannot_be(values):
    with pytest.raises(ConfigError, match="expected at least 1"):
        RagExemplar(HashedEncoder(), **values)
