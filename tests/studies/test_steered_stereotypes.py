"""RMP Tables 1 and 15: claims about shares, independent and paired, with their false discovery rate."""

import numpy as np
import pytest

from apm_lab.records import Group
from apm_lab.studies.steered_stereotypes import CLAIMS, steered_shares

OLD, YOUNG = Group(("AGE",), ("65+",)), Group(("AGE",), ("18-29",))


def kinds(stereotype, antistereotype, unrelated):
    return np.repeat([0, 1, 2], [stereotype, antistereotype, unrelated])


@pytest.fixture
def found():
    tests = steered_shares(
        kinds(45, 45, 10), {("bio", OLD): kinds(70, 20, 10), ("bio", YOUNG): kinds(40, 20, 40)}
    )  # fmt: skip
    return {(test.claim, test.form, test.group): test for test in tests}


def test_a_prompt_that_makes_a_model_stereotype_is_found_by_the_papers_test(found):
    more = found[CLAIMS[0], "bio", OLD]
    assert more.z == pytest.approx((0.7 - 0.2) / np.sqrt(0.45 * 0.55 * 0.02))
    assert more.rejected and more.paired_rejected and more.rejected_globally
    assert not found[CLAIMS[1], "bio", OLD].rejected
    assert found[CLAIMS[0], "none", None].p_value == pytest.approx(0.5)


def test_the_paired_test_is_of_the_same_items(found):
    unrelated = found[CLAIMS[2], "bio", YOUNG]
    # 30 items have become unrelated, none the other way round: P = 2^-30.
    assert (unrelated.paired_n, unrelated.paired_p) == (30, pytest.approx(2.0**-30))
    assert unrelated.z == pytest.approx((0.4 - 0.1) / np.sqrt(0.25 * 0.75 * 0.02))


def test_unsteered_shares_are_not_compared_with_themselves(found):
    assert (CLAIMS[2], "none", None) not in found


def test_missing_items_are_left_out():
    steered = kinds(40, 20, 40)
    steered[:10] = -1
    tests = steered_shares(kinds(45, 45, 10), {("bio", OLD): steered})
    assert next(test for test in tests if test.form == "bio").counts.tolist() == [30, 20, 40]


def test_a_prompt_without_items_has_no_verdict():
    empty = steered_shares(np.array([], dtype=np.int64), {("bio", OLD): np.array([], dtype=np.int64)})
    assert all(test.p_value is None and not test.rejected for test in empty)
