"""A decoder reward model on questions with five choices, against transformers' own batches of whole texts.

    python bench/reward_scoring.py             # some minutes
    python bench/reward_scoring.py --quick     # under a minute on two free cores

A Llama classifier of SmolLM2's shape (--quick: a smaller one) with random weights, float32. Each question has a prompt
of 400 tokens and five choices of a few tokens each. The peer is `AutoModelForSequenceClassification` on every prompt
with every choice, sorted by length, in batches that are padded by the tokenizer. Tokenising counts on both sides.
`ratio`: the peer's time over ours, each the median over repeats by the clock; `apart`: the largest difference of a
score.

Expected before it was measured: with t tokens a choice the peer reads 5 (400 + t) tokens a question and we read
400 + 5t, so at t = 8 at most 2040 / 440 = 4.6 times as many; what a copied cache, a mask and short rows cost comes off
that, so about 4.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from apm_lab.language.reward_classifier import RewardClassifier
from apm_lab.language.reward_model import RewardCall

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = [a + b for a in LETTERS for b in LETTERS]
LARGE = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9}
SMALL = {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 8, "num_attention_heads": 8}


def build(folder: Path, quick: bool) -> None:
    """Write a classifier with random weights and a tokenizer of one token a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["<pad>", "<unk>", "</s>", *WORDS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", unk_token="<unk>", eos_token="</s>")
    words.save_pretrained(folder)
    torch.manual_seed(0)
    shape = {**(SMALL if quick else LARGE), "max_position_embeddings": 2048, "num_labels": 1}
    heads = shape["num_attention_heads"]
    config = LlamaConfig(
        **shape,
        num_key_value_heads=heads // 3 if heads % 3 == 0 else heads // 2,
        vocab_size=len(vocabulary),
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=2,
        initializer_range=0.05,
    )
    LlamaForSequenceClassification(config).save_pretrained(folder)


def questions(count: int, tokens: int, choices: int) -> list[RewardCall]:
    """Return questions whose prompts have about `tokens` words and which begin alike, as those of a survey do."""
    draw = random.Random(1)
    begun = " ".join(draw.choices(WORDS, k=12))
    calls = []
    for _ in range(count):
        prompt = " ".join(draw.choices(WORDS, k=tokens - 12 + draw.randrange(-20, 21)))
        answers = tuple(" ".join(draw.choices(WORDS, k=draw.randrange(4, 13))) for _ in range(choices))
        calls.append(RewardCall(f"{begun} {prompt}\n", answers))
    return calls


def peer(model, tokenizer, calls: list[RewardCall], size: int) -> list[tuple[float, ...]]:
    """Return the scores from padded batches of whole texts, sorted by length."""
    texts = [call.prompt + answer for call in calls for answer in call.answers]
    lengths = [len(row) for row in tokenizer(texts)["input_ids"]]
    order = sorted(range(len(texts)), key=lambda place: -lengths[place])
    scores = [0.0] * len(texts)
    for start in range(0, len(order), size):
        part = order[start : start + size]
        batch = tokenizer([texts[place] for place in part], padding=True, return_tensors="pt")
        with torch.inference_mode():
            given = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
            logits = model(**given, use_cache=False).logits[:, 0]
        for place, score in zip(part, logits.tolist(), strict=True):
            scores[place] = score
    rest = iter(scores)
    return [tuple(next(rest) for _ in call.answers) for call in calls]


def ours(model: RewardClassifier, calls: list[RewardCall]) -> list[tuple[float, ...]]:
    """Return the scores of the framework's own classifier."""
    found = {answer.place: answer.value for group in model.rewards(calls) for answer in group}
    return [found[place] for place in range(len(calls))]


def timed(work) -> tuple[float, list[tuple[float, ...]]]:
    """Return the seconds that a function takes, and what it returns."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def main() -> int:
    """Print the table and the line of ratios."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging

    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--questions", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=32)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    logging.disable_progress_bar()
    count, repeats = arguments.questions or (12 if arguments.quick else 8), 3
    calls = questions(count, 400, 5)
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), arguments.quick)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
        mine = RewardClassifier(folder, "raw", dtype="float32", device="cpu", batch_size=arguments.batch_size)
        ours(mine, calls[:1])  # loads the model
        peer(model, tokenizer, calls[:1], 5)
        own_seconds, their_seconds, apart = [], [], 0.0
        for _ in range(repeats):
            seconds, scores = timed(lambda: ours(mine, calls))
            own_seconds.append(seconds)
            seconds, told = timed(lambda: peer(model, tokenizer, calls, arguments.batch_size))
            their_seconds.append(seconds)
            gaps = (
                abs(a - b) for one, other in zip(scores, told, strict=True) for a, b in zip(one, other, strict=True)
            )
            apart = max(apart, *gaps)
    own, their = statistics.median(own_seconds), statistics.median(their_seconds)
    spread = max(score for row in told for score in row) - min(score for row in told for score in row)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f}M parameters, float32, {arguments.threads} threads")
    print(f"{count} questions of 5 choices, 400 tokens and 4 to 12; scores range over {spread:.2f}")
    print(f"  ours                    {own:7.2f} s {count / own:7.2f} questions/s")
    print(f"  padded batches of {arguments.batch_size:<5} {their:7.2f} s {count / their:7.2f} questions/s")
    print(f"ratio={their / own:.2f} apart={apart:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
