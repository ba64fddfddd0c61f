import pytest

from apm_lab.data.pool import ATTRIBUTES, PRINCIPLES, Pool, slug, styled_messages
from apm_lab.errors import ConfigError
from apm_lab.language.simulated.wordings import ATTRIBUTES as RENDERED
from apm_lab.records import Style


def test_table_6_in_its_order():
    # APM Table 6: each side's left column, then its right one
    assert (
        *("verbose", "enthusiastic", "prescriptive", "unpolished", "open-ended"),
        *("transactional", "anxious", "highly constrained", "tech-savvy", "hypothetical"),
    ) == ATTRIBUTES
    assert (
        *("persuasive", "elaborate", "casual", "prescriptive", "gentle"),
        *("acknowledges uncertainty", "emotionally neutral", "assumes no prior knowledge"),
        *("collaborative", "presents multiple perspectives"),
    ) == PRINCIPLES
    assert tuple(slug(name) for name in ATTRIBUTES) == RENDERED


@pytest.mark.parametrize("size", range(1, 11))
def test_smaller_pools_take_the_first_of_table_6(size):
    pool = Pool.chosen(size, None, None, "system")
    assert (pool.attributes, pool.principles) == (ATTRIBUTES[:size], PRINCIPLES[:size])
    assert pool.styles == 2 * size
    assert Pool.chosen(None, None, None, "system").styles == 20


def test_names_of_ones_own_win_over_size():
    pool = Pool.chosen(6, ["verbose"], ["rhymes", "gentle"], "system")
    assert (pool.attributes, pool.principles) == (("verbose",), ("rhymes", "gentle"))
    assert pool.style_name(Style(1, -1)) == "avoid gentle"
    assert pool.style_name(Style(0, 1)) == "rhymes"


def test_one_side_may_be_named_and_the_other_sized():
    pool = Pool.chosen(3, None, ["rhymes"], "user")
    assert (pool.attributes, pool.principles, pool.placement) == (ATTRIBUTES[:3], ("rhymes",), "user")


@pytest.mark.parametrize(
    ("attributes", "principles", "message"),
    [
        ([], ["a"], "pool.attributes is empty"),
        (["a"], [], "pool.principles is empty"),
        (["a"], ["Tech-savvy", "tech savvy"], "pool.principles names 'Tech-savvy' twice"),
        (["x", "a", "A "], ["a"], "pool.attributes names 'a' twice"),
        ([" "], ["a"], "pool.attributes holds an empty name"),
        (["a"], ["b", "--"], "pool.principles holds an empty name"),
    ],
)
def test_mistakes(attributes, principles, message):
    with pytest.raises(ConfigError, match=message):
        Pool.chosen(None, attributes, principles, "system")


@pytest.mark.parametrize("size", [0, -1, 11])
def test_a_size_that_table_6_does_not_have(size):
    with pytest.raises(ConfigError, match=rf"pool\.size={size}: .*take 1 to 10"):
        Pool.chosen(size, None, None, "system")


INSTRUCTIONS = [
    ("Be persuasive.", "Avoid being persuasive."),
    ("Be elaborate.", "Avoid being elaborate."),
    ("Be casual.", "Avoid being casual."),
    ("Be prescriptive.", "Avoid being prescriptive."),
    ("Be gentle.", "Avoid being gentle."),
    ("Acknowledge uncertainty.", "Avoid acknowledging uncertainty."),
    ("Be emotionally neutral.", "Avoid being emotionally neutral."),
    ("Assume no prior knowledge.", "Avoid assuming no prior knowledge."),
    ("Be collaborative.", "Avoid being collaborative."),
    ("Present multiple perspectives.", "Avoid presenting multiple perspectives."),
]


@pytest.mark.parametrize("principle", range(10))
def test_instructions_stand_in_the_system_or_the_user_turn(principle):
    for direction, instruction in zip((1, -1), INSTRUCTIONS[principle], strict=True):
        style = Style(principle, direction)
        system = styled_messages(PRINCIPLES, "system", "Why?\n\nTell me.", style)
        assert [(m.role, m.content) for m in system] == [("system", instruction), ("user", "Why?\n\nTell me.")]
        user = styled_messages(PRINCIPLES, "user", "Why?\n\nTell me.", style)
        assert [(m.role, m.content) for m in user] == [
            ("user", f"<answer_style>{instruction}</answer_style>\n\nWhy?\n\nTell me.")
        ]


@pytest.mark.parametrize("placement", ["system", "user"])
def test_a_neutral_chat_is_the_prompt_alone(placement):
    assert [(m.role, m.content) for m in styled_messages(PRINCIPLES, placement, "Why?", None)] == [("user", "Why?")]


def test_the_rewriters_instruction_names_active_attributes_with_their_sign():
    pool = Pool.chosen(4, None, None, "system")
    system, user = pool.rewriting_messages([0, 1, 0, -1], "Why?")
    assert "[enthusiastic] [not unpolished]" in system.content
    assert not any(name in system.content for name in ("verbose", "prescriptive"))
    assert (system.role, user.role, user.content) == ("system", "user", "Why?")


def test_slug():
    assert slug(" Open-ended  style") == "open_ended_style"
