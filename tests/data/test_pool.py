import pytest

from apm_lab.data.pool import Pool, slug, styled_messages
from apm_lab.errors import ConfigError
from apm_lab.records import Style


def test_smaller_pools_take_the_first_of_table_6():
    pool = Pool.chosen(3, None, None, "system")
    assert pool.attributes == ("verbose", "enthusiastic", "prescriptive")
    assert pool.principles == ("persuasive", "elaborate", "casual")
    assert pool.styles == 6
    assert len(Pool.chosen(None, None, None, "system").attributes) == 10


def test_names_of_ones_own_win_over_size():
    pool = Pool.chosen(6, ["verbose"], ["rhymes", "gentle"], "system")
    assert (pool.attributes, pool.principles) == (("verbose",), ("rhymes", "gentle"))
    assert pool.style_name(Style(1, -1)) == "avoid gentle"


@pytest.mark.parametrize(
    ("attributes", "principles", "message"),
    [
        ([], ["a"], "pool.attributes is empty"),
        (["a"], [], "pool.principles is empty"),
        (["a"], ["Tech-savvy", "tech savvy"], "twice"),
        ([" "], ["a"], "empty name"),
    ],
)
def test_mistakes(attributes, principles, message):
    with pytest.raises(ConfigError, match=message):
        Pool.chosen(None, attributes, principles, "system")


def test_instructions_stand_in_the_system_or_the_user_turn():
    names = ["persuasive", "acknowledges uncertainty"]
    system = styled_messages(names, "system", "Why?", Style(0, -1))
    assert [(m.role, m.content) for m in system] == [("system", "Avoid being persuasive."), ("user", "Why?")]
    user = styled_messages(names, "user", "Why?", Style(1, 1))
    assert [(m.role, m.content) for m in user] == [("user", "Acknowledge uncertainty.\n\nWhy?")]
    assert [m.content for m in styled_messages(names, "system", "Why?", None)] == ["Why?"]


def test_the_rewriters_instruction_names_active_attributes_with_their_sign():
    pool = Pool.chosen(4, None, None, "system")
    system, user = pool.rewriting_messages([0, 1, 0, -1], "Why?")
    assert "[enthusiastic] [not unpolished]" in system.content
    assert user.content == "Why?"


def test_slug():
    assert slug(" Open-ended  style") == "open_ended_style"
