"""How often the three nearest training users share the test user's attribute: what bounds retrieval when simulated.

    python bench/neighbours.py --prompts prompts.jsonl.gz    # users of APM Tables 2a, 2b and 3, as retrieval sees them
    python bench/neighbours.py --quick                       # a tenth of the users, packaged prompts

For `rag_exemplar` users are near by the vectors of their prompts, for `rag_summary` by those of the simulated
summariser's descriptions; the encoder is `hashed`. `chance` is what users at random would share. No responder, judge
or mapping has a part in it: these are the users and histories of the runs of `bench/paper_retrieval.py` at seed 0.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from apm_lab.data.pool import Pool
from apm_lab.data.prompts import PromptPools, read_prompts, split_prompts
from apm_lab.data.store import Store
from apm_lab.data.users import Users, make_users
from apm_lab.language.hashed_encoder import HashedEncoder
from apm_lab.language.history_embedding import history_embeddings
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.recall import CallCounts, StoredTexts
from apm_lab.language.simulated.rewriter import SimulatedRewriter
from apm_lab.language.simulated.summariser import SimulatedSummariser
from apm_lab.maths.nearest import nearest
from apm_lab.methods.context import prompt_text
from apm_lab.records import Message
from apm_lab.studies.world import rewritten

NEIGHBOURS = 3
WORLDS = [(10, 2, (500, 1000, 2000, 4000)), *((10, turns, (4000,)) for turns in (1, 4))]
WORLDS += [(size, 2, (4000,)) for size in (2, 4, 6, 8)]
"""N = M, conversations, training users."""


def histories(size: int, prompts: PromptPools, turns: int, counts: dict[str, int]) -> dict[str, tuple[Users, list]]:
    """Return the users of each split and their histories."""
    pool, found = Pool.chosen(size, None, None, "system"), {}
    with tempfile.TemporaryDirectory() as folder:
        rewriter = StoredTexts(SimulatedRewriter(), Store(Path(folder) / "store").texts, CallCounts())
        for split, count in counts.items():
            users = make_users(
                split, count, attributes=size, active=1, turns=turns, balance=True, pools=prompts, seed=0
            )
            texts = rewritten(rewriter, pool, users, lambda *_: None)
            found[split] = (users, [text[:turns] for text in texts])
    return found


def described(texts: list[tuple[str, ...]]) -> list[tuple[str]]:
    """Return the simulated summariser's description of each history."""
    chats = [(Message("user", "\n\n".join(prompt_text(prompt) for prompt in text)),) for text in texts]
    return [(text,) for text in SimulatedSummariser().generate([GenerationCall(chat, 0) for chat in chats])]


def shared(test: np.ndarray, train: np.ndarray, queries: np.ndarray, rows: np.ndarray) -> float:
    """Return the share of nearest rows whose attributes (U, N) are those of their query."""
    near = nearest(queries, rows, NEIGHBOURS)
    return float((train[near] == test[:, None, :]).all(axis=2).mean())


def main() -> None:
    """Print a line per world and number of training users."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, help="JSON-lines file of prompts (default: the packaged ones)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the users")
    given = parser.parse_args()
    texts, part = read_prompts(given.prompts), 10 if given.quick else 1
    print(f"{'N=M':>4s} {'conv.':>5s} {'users':>5s} {'rag_exemplar':>12s} {'rag_summary':>12s} {'chance':>7s}")
    for size, turns, counts in WORLDS:
        split = split_prompts(texts, turns, 0)
        people = histories(size, split, turns, {"train": max(counts) // part, "test": 1000 // part})
        (train, told), (test, asked) = people["train"], people["test"]
        vectors = [
            [history_embeddings(HashedEncoder(), view(side)) for side in (asked, told)] for view in (list, described)
        ]
        for count in (count // part for count in counts):
            found = [shared(test.attributes, train.attributes[:count], near, rows[:count]) for near, rows in vectors]
            print(
                f"{size:4d} {turns:5d} {count:5d} {found[0]:12.3f} {found[1]:12.3f} {1 / (2 * size):7.3f}", flush=True
            )


if __name__ == "__main__":
    main()
