"""Small surveys for tests, every number of which is chosen."""

import numpy as np

from apm_lab.data.survey import Survey
from apm_lab.records import ChoiceQuestion, Group


def survey(shares, *, people=None, positions="rank", overall=None, answered=None, halves=None, sizes=None, groups=None):
    """Return a survey with these shares (G, Q, K); all groups answer everything unless `answered` says otherwise."""
    shares = np.asarray(shares, dtype=np.float64)
    G, Q, K = shares.shape
    sizes = np.full(Q, K) if sizes is None else np.asarray(sizes)
    real = np.arange(K) < sizes[:, None]
    answered = np.full((G, Q), 100) if answered is None else np.asarray(answered)
    ranks = np.where(real, np.cumsum(real, axis=1) - 1.0, 0.0)
    return Survey(
        name="small",
        questions=tuple(
            ChoiceQuestion(f"q{q}", f"Question {q}?", tuple(f"c{c}" for c in range(n))) for q, n in enumerate(sizes)
        ),
        real=real,
        positions=ranks if isinstance(positions, str) else positions,
        groups=groups or tuple(Group(("T",), (f"g{g}",)) for g in range(G)),
        shares=shares,
        answered=answered.astype(np.int64),
        refused=np.zeros((G, Q)),
        overall=shares.mean(axis=0) if overall is None else np.asarray(overall, dtype=np.float64),
        overall_answered=answered.sum(axis=0).astype(np.int64),
        people=np.full(G, 100) if people is None else np.asarray(people),
        halves=halves,
    )
