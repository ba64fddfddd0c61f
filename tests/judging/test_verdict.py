import pytest

from apm_lab.judging.verdict import joint_verdicts, verdict

GPT_OSS = "<|channel|>analysis<|message|>7 or 8?<|end|><|start|>assistant<|channel|>final<|message|>"
STATED = {
    "7": 7,
    "10": 10,
    "1": 1,
    " 7\n": 7,
    "7.": 7,
    "7.5": 7.5,
    "# 7": 7,
    "7/10": 7,
    "10/10": 10,
    "7 out of 10": 7,
    "Rating: 7": 7,
    "rating = 7": 7,
    "**7**": 7,
    "**Rating:** 7": 7,
    "**Rating: 8/10**": 8,
    "Rating: **9**": 9,
    "The rating is 6.": 6,
    "Final answer: 6": 6,
    "I would rate it 4.": 4,
    "I would rate this text as a 7": 7,
    "I'd rate this text 4 out of 10.": 4,
    "The score would be 2.": 2,
    "Score: 3\nThe text is formal.": 3,
    "8 - very casual": 8,
    "8 (very casual)": 8,
    "8, because it greets with hey": 8,
    "8\n\nThe text greets with 2 words.": 8,
    "It has 3 contractions, so it is quite casual.\n\nRating: 8": 8,
    "On a scale from 1 (not at all) to 10 (very strongly), I rate it 7.": 7,
    "Rating: 7/10\n\nI give it 7 out of 10.": 7,
    '{"rating": 7}': 7,
    '```json\n{"score": 5}\n```': 5,
    r"\boxed{7}": 7,
    r"$\boxed{10}$": 10,
    "seven": 7,
    "Ten.": 10,
    "Answer: 9<|im_end|>": 9,
    "<think>Maybe 3? No, 8.</think>\n\n8": 8,
    "so 3 then... </think>9": 9,  # the chat's template had opened the block
    f"{GPT_OSS}8": 8,
}
NOT_STATED = [
    *("", "casual", "The text is casual.", "I can't rate this text.", "NaN", "Rating: N/A"),
    *("0", "11", "100", "-7", "+7", "7%", "7,5", "1e1", "Rating: 0", "Rating: 11", "Rating: -3"),
    *("70/100", "4/5", "4 out of 5", "7-8", "7 or 8", "between 6 and 7", "Rating: 7-8", "Rating: 1-10"),
    *("Rating: 7\nRating: 8", "3\n8", "8 out of 10, so the rating is 9", "Follow: 9, avoid: 2"),
    *("There are 3 exclamation marks.", "1. It is casual.\n2. It is short.", "1. It is casual."),
    *("<think>it is 7", "<think>a</think><think>7", "<|channel|>analysis<|message|>7"),
]


@pytest.mark.parametrize(("answer", "rating"), STATED.items())
def test_a_stated_rating_is_read(answer, rating):
    assert verdict(answer) == rating


@pytest.mark.parametrize("answer", NOT_STATED)
def test_whatever_is_not_plainly_one_rating_is_none(answer):
    assert verdict(answer) is None


NAMES = ("casual", "acknowledges_uncertainty")


@pytest.mark.parametrize(
    ("answer", "ratings"),
    [
        ("casual: 7\nacknowledges uncertainty: 2", [7, 2]),
        ("- **Casual**: 7/10\n- **Acknowledges uncertainty**: 2/10", [7, 2]),
        ("1. casual: 7\n2. acknowledges uncertainty: 2", [7, 2]),
        ("| casual | 7 |\n| acknowledges uncertainty | 2 |", [7, 2]),
        ("casual - 7\nacknowledges uncertainty - 2", [7, 2]),
        ("casual = 7\nAcknowledges_Uncertainty = 2", [7, 2]),
        ('{"casual": 7, "acknowledges uncertainty": 2}', [7, 2]),
        ('```json\n{"casual": "7", "acknowledges_uncertainty": 2.0}\n```', [7, 2]),
        ("<think>casual: 1</think>acknowledges uncertainty: 2\ncasual: 7", [7, 2]),
        ("Here they are:\ncasual: 7\nacknowledges uncertainty: 2", [7, 2]),
        ("casual: 7\ngentle: 3", [7, None]),
        ("casual: 7\ncasual: 7", [7, None]),
        ("casual: 7\ncasual: 8\nacknowledges uncertainty: 2", [None, 2]),
        ('{"casual": 7, "casual": 8, "acknowledges uncertainty": 11}', [None, None]),
        ('{"casual": true, "acknowledges uncertainty": 0}', [None, None]),
        ('{"casual": {"rating": 7}}', [None, None]),
        ('{"casual": 7, "acknowledges', [None, None]),
        ("casual: high\nacknowledges uncertainty: 2-3", [None, None]),
        ("7, 2", [None, None]),
        ("7\n2", [None, None]),
        ("<think>casual: 7", [None, None]),
        ("", [None, None]),
    ],
)
def test_a_joint_answer_gives_each_principle_its_own_or_none(answer, ratings):
    assert joint_verdicts(answer, NAMES) == ratings
