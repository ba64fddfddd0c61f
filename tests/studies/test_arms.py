"""What one arm's responses are worth, text by text."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from small_world import build_evaluation, small_study

from apm_lab.records import Response, Style
from apm_lab.studies.arms import judge_arm


def test_own_texts_and_styles_side_by_side_are_each_judged_as_what_they_are(tmp_path):
    evaluation = build_evaluation(small_study(tmp_path, train=6, test=12, validation=0))
    side, weights = evaluation.test, evaluation.weights[0]
    styled = [Response(style=Style(user % 3, 1)) for user in range(12)]
    alone = judge_arm(side, weights, styled)
    own = side.responses.generate([(3, 0, Style(1, -1), 0)])[0]
    mixed = list(styled)
    mixed[3], mixed[5] = Response(text=own), Response()
    both = judge_arm(side, weights, mixed)
    others = np.delete(np.arange(12), [3, 5])
    assert (both.difference[others] == alone.difference[others]).all()
    assert both.difference[5] == 0
    as_styled = judge_arm(side, weights, [Response(style=Style(1, -1))] * 12)
    assert both.difference[3] == as_styled.difference[3]
    assert both.column[[3, 5]].tolist() == [-1, side.neutral]
    assert not both.styled[3]
    assert not both.hit[[3, 5]].any()
