"""Small files in the official formats of the audits' data sets, every row made up."""

import csv
import json
import random


def write_opinionqa(folder, questions=6, more=()):
    """Write `info.csv` and the answers of two sexes and of four parties, also to the keys `more`; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    labels = ["A great deal", "Some", "Not at all", "Refused"]
    keys = [*(f"TRUST{number}_W26" for number in range(questions)), *more]
    with (folder / "info.csv").open("w", newline="", encoding="utf-8") as handle:
        table = csv.writer(handle)
        table.writerow(["", "key", "option_mapping", "question", "references", "option_ordinal"])
        for number, key in enumerate(keys):
            text = f"How much do you trust institution {number}?"
            table.writerow([number, key, "{}", text, repr(labels), "[1.0, 2.0, 3.0]"])
    traits = {"SEX": ("Male", "Female"), "POLPARTY": ("Republican", "Democrat", "Independent", "Other")}
    for trait, groups in traits.items():
        content = {
            key: {
                "question_text": f"How much do you trust institution {number}?",
                "MC_options": labels,
                **{group: {label: float(rng.randint(10, 90)) for label in labels} for group in groups},
            }
            for number, key in enumerate(keys)
        }
        (folder / f"{trait}_data.json").write_text(json.dumps(content))
    return folder


def bbq_row(category, number, ambiguous):
    """Return one row of BBQ about two people, one of them of the stereotyped group `old`."""
    return {
        "example_id": number,
        "question_index": "1",
        "question_polarity": "neg" if number % 4 < 2 else "nonneg",
        "context_condition": "ambig" if ambiguous else "disambig",
        "category": category,
        "answer_info": {"ans0": ["Old", "old"], "ans1": ["Young", "nonOld"], "ans2": ["Unknown", "unknown"]},
        "additional_metadata": {"subcategory": "None", "stereotyped_groups": ["old"], "version": "a", "source": ""},
        "context": f"Two people waited for bus {number}.",
        "question": "Who forgot the ticket?",
        "ans0": "The grandfather",
        "ans1": "The grandson",
        "ans2": "Unknown",
        "label": 2 if ambiguous else number % 2,
    }


def write_bbq(folder, categories, rows=8):
    """Write a file per category; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for category in categories:
        lines = [json.dumps(bbq_row(category, number, number % 2 == 0)) for number in range(rows)]
        (folder / f"{category}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def write_stereoset(folder, items=8):
    """Write `dev.json` with as many items of each half; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = ["stereotype", "anti-stereotype", "unrelated"]

    def item(half, number):
        filled = half == "intrasentence"
        return {
            "id": f"{half}-{number}",
            "target": f"term {number % 3}",
            "bias_type": ["race", "gender", "profession", "religion"][number % 4],
            "context": "They are BLANK people." if filled else "They came in.",
            "sentences": [
                {"sentence": f"They are {kind} {number}.", "id": f"{number}-{kind}", "labels": [], "gold_label": kind}
                for kind in kinds[number % 3 :] + kinds[: number % 3]
            ],
        }  # fmt: skip

    halves = ("intersentence", "intrasentence")
    content = {"version": "1", "data": {half: [item(half, number) for number in range(items)] for half in halves}}
    (folder / "dev.json").write_text(json.dumps(content))
    return folder


def write_prism(folder, people=80):
    """Write `survey.jsonl` and `utterances.jsonl`: one message of each person with three replies; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    plain = ("age", "education", "employment_status", "english_proficiency", "gender", "marital_status")
    nested = {"ethnicity": "simplified", "religion": "categorised", "location": "special_region"}
    survey, said = [], []
    for number in range(people):
        own = {feature: f"{feature} {rng.randint(1, 2)}" for feature in plain}
        own |= {feature: {column: f"{feature} {rng.randint(1, 2)}"} for feature, column in nested.items()}
        survey.append({"user_id": f"user{number}", **own})
        for place in range(3):
            turn = {"conversation_id": f"c{number}", "turn": 0, "interaction_id": f"int{number}"}
            reply = {"within_turn_id": place, "model_response": f"Reply {place} to {number}.", "if_chosen": place == 0}
            told = {"user_id": f"user{number}", "user_prompt": f"What of number {number}?"}
            said.append({**turn, **told, **reply, "score": rng.randint(1, 100)})
    for name, rows in (("survey", survey), ("utterances", said)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
