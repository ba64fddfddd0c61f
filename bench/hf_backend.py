"""The transformers backend on SmolLM2 against plain use of transformers, in one process.

    python bench/hf_backend.py             # needs `make offline-models`
    python bench/hf_backend.py --quick     # under a minute on two free cores

Generation (greedy, bfloat16 where the processor has it): prompts and answers of mixed lengths, against `generate` one
by one and against `generate` on fixed batches in the order given. Judging: the log-probabilities of "1".."10" for ten
questions about each text, against batches that are sorted by length and share nothing. Each peer gets the same tokens.
Then float32: whether greedy answers equal those of `generate` one by one, else the two best logits' gap at the first
difference. `ratio`: one by one; `plain`: fixed batches; `judge`: unshared batches; each the median over repeats of our
rate over theirs, by the clock.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from importlib.resources import files

import torch

from apm_lab.data.pool import PRINCIPLES
from apm_lab.errors import ApmLabError
from apm_lab.language.hf import HfModel
from apm_lab.language.hf_engine import load_engine
from apm_lab.language.hf_weights import auto_dtype, load_language_model
from apm_lab.language.protocols import ChoiceCall, GenerationCall
from apm_lab.records import Message

MODEL = "smollm2_135m"
RATINGS = tuple(str(rating) for rating in range(1, 11))
RULE = Message("system", "You rate the style of a text. Answer with one whole number from 1 to 10.")


def prompts(count: int) -> list[str]:
    """Return prompts of very different lengths, which also ask for answers of different lengths."""
    lines = files("apm_lab.data").joinpath("prompts.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    made = []
    for number in range(count):
        text = texts[number * 7 % len(texts)]
        if number % 3 == 1:
            text += " Answer with one word."
        elif number % 3 == 2:
            background = " ".join(texts[(number * 11 + step) % len(texts)] for step in range(number % 14))
            text = f"{background}\n\nOf all this, tell me in one short sentence: {text}"
        made.append(text)
    return made


def one_by_one(model, engine, tokens: list[list[int]], longest: int) -> list[list[int]]:
    """Return each prompt's answer from a `generate` call of its own."""
    return [answer for prompt in tokens for answer in batches(model, engine, [prompt], longest, 1)]


def batches(model, engine, tokens: list[list[int]], longest: int, size: int) -> list[list[int]]:
    """Return the answers of `generate` on fixed batches, padded at the left, in the order given."""
    answers = []
    for start in range(0, len(tokens), size):
        part = tokens[start : start + size]
        width = max(map(len, part))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in part])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in part])
        out = model.generate(ids, attention_mask=mask, max_new_tokens=longest, do_sample=False)[:, width:].tolist()
        answers += [list(itertools.takewhile(lambda token: token not in engine.ends, answer)) for answer in out]
    return answers


def unshared(model, engine, calls: list[ChoiceCall], size: int) -> list[list[float]]:
    """Return the ratings' log-probabilities from batches sorted by length, each prompt read whole, with one "1" behind.

    Only the two positions wanted go through the head.
    """
    prompts = engine.encoder.prompts([call.messages for call in calls], 2)
    ratings = engine.encoder.answers(RATINGS)
    one, zero = ratings[0][0], ratings[9][1]
    first = torch.tensor([rating[0] for rating in ratings[:9]])
    found: list[list[float]] = [[]] * len(calls)
    order = sorted(range(len(calls)), key=lambda place: -len(prompts[place]))
    for start in range(0, len(order), size):
        part = order[start : start + size]
        width = len(prompts[part[0]]) + 1
        lengths = torch.tensor([len(prompts[place]) for place in part])
        ids = torch.tensor([[*prompts[place], one, *[0] * (width - 1 - len(prompts[place]))] for place in part])
        mask = (torch.arange(width)[None] <= lengths[:, None]).long()
        with torch.inference_mode():
            states = model.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
            rows = torch.arange(len(part))
            wanted = torch.cat([states[rows, lengths - 1], states[rows, lengths]])
            logs = model.lm_head(wanted).float().log_softmax(-1)
        for row, place in enumerate(part):
            nine = logs[row, first].tolist()
            found[place] = [*nine, nine[0] + float(logs[len(part) + row, zero])]
    return found


def timed(work) -> tuple[float, object]:
    """Return the seconds that a function takes, and what it returns."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def generation(model, engine, backend: HfModel, count: int, longest: int, size: int, repeats: int) -> dict[str, float]:
    """Print tokens a second of ours, one by one and fixed batches; return the ratios."""
    texts = prompts(count)
    calls = [GenerationCall((Message("user", text),), 0) for text in texts]
    tokens = engine.encoder.prompts([call.messages for call in calls], longest)
    few = tokens[: max(6, count // 32)]
    ratios: dict[str, list[float]] = {"ratio": [], "plain": []}
    for _ in range(repeats):
        seconds, groups = timed(lambda: list(backend.stream(calls)))
        written = [answer.usage.tokens_out for group in groups for answer in group]
        ours = sum(written) / seconds
        seconds, answers = timed(lambda: one_by_one(model, engine, few, longest))
        alone = sum(map(len, answers)) / seconds
        seconds, answers = timed(lambda: batches(model, engine, tokens, longest, size))
        fixed = sum(map(len, answers)) / seconds
        ratios["ratio"].append(ours / alone)
        ratios["plain"].append(ours / fixed)
        print(
            f"  {count} prompts of {min(map(len, tokens))} to {max(map(len, tokens))} tokens, answers {min(written)} "
            f"to {max(written)}, mean {statistics.mean(written):.0f}: ours {ours:.0f} tokens/s, one by one {alone:.1f}"
            f", batches of {size} {fixed:.0f}",
            flush=True,
        )
    return {name: statistics.median(values) for name, values in ratios.items()}


def judging(model, engine, backend: HfModel, texts: int, size: int, repeats: int) -> float:
    """Print questions a second of ours and of unshared batches; return the ratio."""
    answers = backend.generate([GenerationCall((Message("user", text),), 0) for text in prompts(texts)])
    calls = [
        ChoiceCall((RULE, Message("user", f"<text>\n{answer}\n</text>\nHow strongly is it {principle}?")), RATINGS)
        for answer in answers
        for principle in PRINCIPLES
    ]
    ratios = []
    for _ in range(repeats):
        seconds, groups = timed(lambda: list(backend.log_probabilities(calls)))
        found = {answer.place: answer.value for group in groups for answer in group}
        peer_seconds, peer = timed(lambda: unshared(model, engine, calls, size))
        gap = max(abs(a - b) for place, row in enumerate(peer) for a, b in zip(found[place], row, strict=True))
        ratios.append(peer_seconds / seconds)
        print(
            f"  {len(calls)} questions about {texts} texts: ours {len(calls) / seconds:.1f}/s, batches of {size} "
            f"{len(calls) / peer_seconds:.1f}/s, largest difference {gap:.4f}",
            flush=True,
        )
    return statistics.median(ratios)


def equality(count: int, longest: int) -> None:
    """Print how many float32 answers equal those of `generate` one by one, and the gap where one differs."""
    model, engine = load_language_model(MODEL, None, "float32", "cpu").model, load_engine(MODEL, None, "float32", "cpu")
    backend = HfModel(MODEL, dtype="float32", device="cpu", temperature=0.0, max_tokens=longest, batch_size=8)
    calls = [GenerationCall((Message("user", text),), 0) for text in prompts(count)]
    tokens = engine.encoder.prompts([call.messages for call in calls], longest)
    alone = one_by_one(model, engine, tokens, longest)
    equal = 0
    for call, prompt, text, theirs in zip(calls, tokens, backend.generate(calls), alone, strict=True):
        if text == engine.text(theirs):
            equal += 1
            continue
        ours = engine.encoder.answers([text])[0]
        first = next(place for place, pair in enumerate(itertools.zip_longest(ours, theirs)) if pair[0] != pair[1])
        with torch.inference_mode():
            best = model(torch.tensor([prompt + theirs[:first]])).logits[0, -1].topk(2).values
        gap = float(best[0] - best[1])
        print(f"  differs at token {first}, two best logits {gap:.6f} apart: {call.messages[0].content:.40}")
    print(f"float32 greedy: {equal} of {count} answers equal those of generate one by one", flush=True)


def main() -> int:
    """Print the figures and the line of ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    quick = arguments.quick
    torch.set_num_threads(arguments.threads)
    try:
        dtype = auto_dtype("auto", "cpu")
        model, engine = load_language_model(MODEL, None, dtype, "cpu").model, load_engine(MODEL, None, dtype, "cpu")
    except ApmLabError as fault:
        print(fault, file=sys.stderr)
        return 2
    count, longest, size, repeats = (96, 40, 64, 1) if quick else (384, 128, 64, 3)
    backend = HfModel(MODEL, device="cpu", temperature=0.0, max_tokens=longest, batch_size=size)
    print(f"{MODEL} in {dtype}, {arguments.threads} threads")
    found = generation(model, engine, backend, count, longest, size, repeats)
    judge = judging(model, engine, backend, 4 if quick else 24, size, repeats)
    equality(4 if quick else 24, 24 if quick else 64)
    print(f"ratio={found['ratio']:.2f} plain={found['plain']:.2f} judge={judge:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
