import numpy as np
import pytest

from apm_lab.errors import ConfigError, DataError
from apm_lab.methods.ngrams import NgramRouter, history_ngrams
from apm_lab.methods.style_router import ValidationSet

FILLER = ["please", "tell", "me", "about", "the", "history", "of", "a", "place", "with", "many", "old", "houses"]
CUES = ("quite frankly", "if possible")


def users(count, seed, cues=CUES):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(cues), count)
    histories = [
        tuple(f"{' '.join(rng.choice(FILLER, 6))} {cues[label]} {' '.join(rng.choice(FILLER, 3))}" for _ in range(2))
        for label in labels
    ]
    return histories, labels


def test_ngrams_of_a_history_do_not_span_prompts():
    assert history_ngrams(("Could you, please?", "A cat"), 2) == [
        *("could", "you", "please", "could you", "you please"),
        *("a", "cat", "a cat"),
    ]
    assert history_ngrams(("one",), 3) == ["one"]


def test_learns_two_word_classes_and_gives_probabilities():
    histories, labels = users(60, seed=0)
    router = NgramRouter()
    router.fit(histories, labels, objective="classification", styles=2, validation=None, seed=0)
    held_out, expected = users(40, seed=1)
    scores = router.predict(held_out)
    assert scores.shape == (40, 2)
    assert scores.dtype == np.float64
    assert scores.sum(axis=1) == pytest.approx(1.0)
    assert (scores.argmax(axis=1) == expected).all()


def test_order_inside_a_bigram_counts():
    # The two classes use the same words: only bigrams tell them apart.
    cues = ("sun moon", "moon sun")
    histories, labels = users(200, 0, cues)
    held_out, expected = users(100, 1, cues)
    accuracy = {}
    for longest in (1, 2):
        router = NgramRouter(longest=longest)
        router.fit(histories, labels, objective="classification", styles=2, validation=None, seed=0)
        accuracy[longest] = (router.predict(held_out).argmax(axis=1) == expected).mean()
    assert accuracy[1] < 0.7
    assert accuracy[2] > 0.95


def test_regression_predicts_ratings():
    histories, labels = users(200, seed=0)
    ratings = np.where(labels[:, None] == np.arange(2), 8.0, 3.0)
    router = NgramRouter(ridge_penalty=0.1)
    router.fit(histories, ratings, objective="regression", styles=2, validation=None, seed=0)
    held_out, expected = users(50, seed=1)
    predicted = router.predict(held_out)
    assert np.abs(predicted - np.where(expected[:, None] == np.arange(2), 8.0, 3.0)).max() < 1.5
    # A history without any known word gets the training mean.
    assert router.predict([("xyzzy",)])[0] == pytest.approx(ratings.mean(axis=0), abs=1.0)


def test_styles_missing_in_training_score_zero():
    histories, labels = users(60, seed=0)
    router = NgramRouter()
    router.fit(histories, labels * 3, objective="classification", styles=5, validation=None, seed=0)
    scores = router.predict(histories[:4])
    assert scores.shape == (4, 5)
    assert (scores[:, [1, 2, 4]] == 0).all()
    assert (scores.argmax(axis=1) == labels[:4] * 3).all()


def test_a_style_with_a_single_user_works():
    histories, labels = users(30, seed=0)
    labels[0] = 2
    router = NgramRouter()
    router.fit(histories, labels, objective="classification", styles=3, validation=None, seed=0)
    assert (router.predict(histories)[:, 2] > 0).all()


def test_one_style_for_everyone_is_answered_to_everyone():
    histories, _ = users(10, seed=0)
    router = NgramRouter()
    router.fit(histories, np.full(10, 1), objective="classification", styles=3, validation=None, seed=0)
    assert router.predict(histories[:2]).tolist() == [[0.0, 1.0, 0.0]] * 2


@pytest.mark.parametrize("histories", [[("",), ("!",)], [("one",), ("two",)]])
def test_without_a_frequent_word_the_shares_are_answered(histories):
    router = NgramRouter()
    router.fit(histories, np.array([0, 1]), objective="classification", styles=2, validation=None, seed=0)
    assert router.predict([("one two",)]).tolist() == [[0.5, 0.5]]


def test_two_fits_are_equal_and_leave_the_generators_alone():
    histories, labels = users(80, seed=0)
    state = np.random.get_state()[1].copy()
    scores = []
    for seed in (0, 1):
        router = NgramRouter()
        router.fit(histories, labels, objective="classification", styles=2, validation=None, seed=seed)
        scores.append(router.predict(histories))
    assert (scores[0] == scores[1]).all()
    assert (np.random.get_state()[1] == state).all()


def test_validation_figures_are_logged():
    histories, labels = users(60, seed=0)
    held_out, expected = users(4, seed=1)
    ratings = np.where(expected[:, None] == np.arange(2), 9.0, 4.0)
    logged = []
    validation = ValidationSet(held_out, expected, ratings)
    router = NgramRouter()
    router.fit(
        histories, labels, objective="classification", styles=2, validation=validation, seed=0, log=logged.append
    )
    # The chosen style is rated 9, the mean of the user's own two candidates is 6.5.
    assert logged == [{"val/delta": 2.5, "val/wl": np.inf, "val/win_rate": 1.0, "val/accuracy": 1.0}]


def test_targets_that_do_not_fit_are_refused():
    histories, labels = users(10, seed=0)
    router = NgramRouter()

    def fit(targets, objective, kept=histories):
        router.fit(kept, targets, objective=objective, styles=2, validation=None, seed=0)

    with pytest.raises(DataError, match=r"shape \(9,\), expected \(10,\)"):
        fit(labels[:9], "classification")
    with pytest.raises(DataError, match=r"shape \(10,\), expected \(10, 2\)"):
        fit(labels.astype(float), "regression")
    with pytest.raises(DataError, match=r"0\.\.2, expected 0\.\.1"):
        fit(np.array([0, 2] * 5), "classification")
    with pytest.raises(DataError, match="float64, expected integers"):
        fit(labels.astype(float), "classification")
    with pytest.raises(DataError, match="finite"):
        fit(np.full((10, 2), np.nan), "regression")
    with pytest.raises(DataError, match="at least one history"):
        fit(labels[:0], "classification", [])
    with pytest.raises(ConfigError, match="weighting is 'count'"):
        NgramRouter(weighting="count")
    with pytest.raises(RuntimeError, match="has not been fitted"):
        NgramRouter().predict(histories)
