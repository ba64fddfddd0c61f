"""What a reward model is asked: the paper's printed prompt, and every alteration of it."""

import pytest

from apm_lab.errors import ConfigError
from apm_lab.records import ChoiceQuestion
from apm_lab.studies.question_format import FormatSettings, alterations, asked, shown_order

QUESTION = ChoiceQuestion("Q_W1", "Is it good?", ("Very", "Somewhat", "Hardly", "Not at all"))


def test_the_papers_own_form():
    call = asked(QUESTION, FormatSettings())
    assert call.prompt == ("Question: Is it good?\nChoice: [1. Very, 2. Somewhat, 3. Hardly, 4. Not at all]\nAnswer: ")
    assert call.answers == QUESTION.choices


@pytest.mark.parametrize(
    ("form", "prompt"),
    [
        (FormatSettings(display="qa"), "Question: Is it good?\nAnswer: "),
        (FormatSettings(display="qa", verbose_question=False, verbose_answer=False), "Is it good?\n"),
        (
            FormatSettings(choices="alphabetical", verbose_choice=False),
            "Question: Is it good?\n[A. Very, B. Somewhat, C. Hardly, D. Not at all]\nAnswer: ",
        ),
        (
            FormatSettings(choices="list"),
            "Question: Is it good?\nChoice: [Very, Somewhat, Hardly, Not at all]\nAnswer: ",
        ),
    ],
)
def test_each_alteration_shows_what_it_says(form, prompt):
    assert asked(QUESTION, form).prompt == prompt


def test_steering_comes_first():
    assert asked(QUESTION, FormatSettings(), "As if old.\n").prompt.startswith("As if old.\nQuestion: Is")


def test_a_permutation_moves_the_shown_choices_and_not_the_answers():
    call = asked(QUESTION, FormatSettings(order=2, choices="list"))
    assert call.answers == QUESTION.choices
    orders = [shown_order(QUESTION, order) for order in range(6)]
    assert orders[0] == [0, 1, 2, 3]
    assert len({tuple(order) for order in orders}) == 6
    listed = ", ".join(QUESTION.choices[place] for place in orders[2])
    assert f"[{listed}]" in call.prompt


@pytest.mark.parametrize(("choices", "formats"), [(1, 4 + 24), (2, 4 + 48), (3, 4 + 144), (4, 148), (6, 148)])
def test_there_are_as_many_formats_as_differ(choices, formats):
    question = ChoiceQuestion("Q", "?", tuple("abcdef"[:choices]))
    forms = list(alterations(question))
    assert len(forms) == formats
    # Every one asks something else, but for a single choice that is shown in lists of one.
    assert len({asked(question, form).prompt for form in forms}) == formats
    assert len({form.name for form in forms}) == formats


def test_an_order_beyond_the_permutations_is_refused():
    with pytest.raises(ConfigError, match=r"prompt_format\.order=6: expected 0 .* to 5"):
        FormatSettings(order=6)


def test_letters_go_on_behind_z():
    question = ChoiceQuestion("Q", "?", tuple(f"c{number}" for number in range(28)))
    prompt = asked(question, FormatSettings(choices="alphabetical")).prompt
    assert "Z. c25, AA. c26, AB. c27]" in prompt
