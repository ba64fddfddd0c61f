"""Tables of audits, made by hand, of any size."""

from apm_lab.report.frame import rows_of
from apm_lab.report.perspectives.across import ModelAudit, across_frames
from apm_lab.report.perspectives.bbq import share_bounds

NAMES = ("beaver", "llm_blender", "starling", "ultra", "deberta", "lm_loglik (HuggingFaceTB/SmolLM2-135M)", "pythia_7b")
HALVES = "half a group against the other half"
LONG = "Hindu, Muslim, Buddhist or another religion that the survey does not name by itself"


def value(place, model=0):
    """Return a number in (0, 1) that differs from place to place and model to model."""
    return 0.3 + 0.6 * (((place * 37 + model * 11) % 101) / 101)


def group_names(count):
    """Return groups of traits of five, a name with dollars and a long one among them."""
    named = [(f"TRAIT {place // 5}", f"group {place}") for place in range(count)]
    for place, name in ((1, "$30,000-$50,000"), (2, LONG)):
        if count > place:
            named[place] = (named[place][0], name)
    return named


def opinion_tables(groups=6, model=0, missing=False):
    """Return the tables of an audit of opinions, under two distances, the second one's values half as large."""
    keys = group_names(groups)
    alignment = []
    for factor, distance in ((1.0, "wasserstein"), (0.5, "euclidean")):
        values = [value(place, model) * factor for place in range(groups)]
        alignment.append(_aligned(distance, "all", "everybody", None, 0.6 * factor, None))
        for place, (trait, group) in enumerate(keys):
            rank = 1.0 + sum(other > values[place] for other in values)
            known = not (missing and place == 0)
            alignment.append(
                _aligned(distance, trait, group, 100 + place, values[place] if known else None, rank if known else None)
            )
    return {
        "alignment": alignment,
        "references": [
            {"row": "reward model", "mean": 0.6, "least": 0.3, "largest": 0.9, "everybody": 0.6},
            {"row": "uniform model", "mean": 0.75, "least": 0.7, "largest": 0.8, "everybody": 0.77},
            {
                "row": "half a group against the other half",
                "mean": 0.95,
                "least": 0.9,
                "largest": 0.97,
                "everybody": None,
            },
        ],
        "temperature": [
            {
                "temperature": 2.0**step,
                "everybody": 0.5 + 0.02 * step,
                "mean": 0.45 + 0.02 * step,
                "spearman": None if missing and step == 2 else 1.0 - 0.01 * step,
            }
            for step in range(-3, 5)
        ],
        "opinions": [
            {
                "question": f"Q{q}",
                "choice": c,
                "answer": f"{c}",
                "position": float(c),
                "share": (1 + (c + model) % 2) / 3,
                "respondents": 0.5,
            }
            for q in range(3)
            for c in range(2)
        ],
    }


def _aligned(distance, trait, group, people, aligned, rank):
    row = {
        "distance": distance,
        "trait": trait,
        "group": group,
        "people": people,
        "questions": 40,
        "alignment": aligned,
    }
    around = {"low": None, "high": None} if aligned is None else {"low": aligned - 0.05, "high": aligned + 0.05}
    ranks = dict.fromkeys(("rank", "rank_low", "rank_high"), None)
    if rank is not None:
        ranks = {"rank": rank, "rank_low": max(1.0, rank - 1), "rank_high": rank + 1}
    return {**row, **around, **ranks}


def steering_tables(groups=6, model=0, missing=False):
    """Return the tables of steering by three forms, and of formats of four questions."""
    forms = ("bio", "portray", "qa")
    rows = []
    for number, form in enumerate(forms):
        for place, (trait, group) in enumerate(group_names(groups)):
            absent = missing and place == 0
            gain = None if absent else 0.1 * (value(place, model + number) - 0.6)
            rows.append(
                {
                    "form": form,
                    "trait": trait,
                    "group": group,
                    "unsteered": None if absent else 0.5,
                    "alignment": None if absent else 0.5 + gain,
                    "gain": gain,
                    "low": None if absent else gain - 0.02,
                    "high": None if absent else gain + 0.02,
                    "others": None,
                    "spread": None if absent else 0.1 * value(place, model + number),
                    "rank_unsteered": None if absent else 1.0,
                    "rank": None if absent else 2.0 + (number + place) % 3,
                }
            )
    axes = ("display", "choices", "order", "verbose_question", "verbose_choice", "verbose_answer")
    formats = [
        {
            "question": f"Q{q}",
            "formats": 148,
            "missing": 0,
            "kendall_w": 0.5,
            "same_top": 0.5,
            **{axis: None if missing and at == 0 else value(q, at + model) for at, axis in enumerate(axes)},
        }
        for q in range(4)
    ]
    questions = [{"form": form, "question": "Q0", "before": 0.5, "after": 0.4} for form in forms]
    return {"steering": rows, "steering_questions": questions, "formats": formats}


def bbq_tables(groups=6, model=0, missing=False):
    """Return the tables of BBQ with and without refusals."""
    kinds = ("stereotyped", "unknown", "unstereotyped")
    both = ("among the choices", "removed")
    correct = []
    for refusals in both:
        for place, (category, group) in enumerate(group_names(groups)):
            absent = missing and place == 0
            share, items = (None, 0) if absent else (round(value(place, model) * 50) / 50, 50)
            low, high = share_bounds(share, items)
            row = {"refusals": refusals, "category": category, "group": group, "items": items, "correct": share}
            correct.append({**row, "low": low, "high": high})
    confusion = [
        {
            "refusals": refusals,
            "gold": gold,
            "recall": None,
            **{
                kind: 0 if missing and (groups == 1 or at == 2) else 10 * at + place + model
                for place, kind in enumerate(kinds)
            },
        }
        for refusals in both
        for at, gold in enumerate(kinds)
    ]
    bias = [
        {
            "refusals": refusals,
            "category": category,
            "context": context,
            "items": 30,
            "accuracy": 0.5,
            "bias": None if missing and (groups == 1 or at == 3) else value(at, model) - 0.5,
            "about_a_person": 20,
        }
        for refusals in both
        for at, category in enumerate(("all", "Age", "Disability_status", "Socio-economic status and more"))
        for context in ("ambiguous", "disambiguated")
    ]
    return {"confusion": confusion, "correct": correct, "bias": bias}


def stereoset_tables(terms=6, model=0, missing=False):
    """Return the table of StereoSet's shares: over all, two domains, and their terms."""

    def row(domain, term, place):
        shares = None if missing and place == 0 else value(place, model) / 2
        rest = (None, None) if shares is None else (0.4, 0.6 - shares)
        return {
            "domain": domain,
            "term": term,
            "items": 40,
            "share_stereotype": shares,
            "share_antistereotype": rest[0],
            "share_unrelated": rest[1],
        }

    rows = [row("all", "", 1), row("gender", "", 2), row("profession", "", 3)]
    rows += [row(("gender", "profession")[place % 2], f"term {place}", place) for place in range(terms)]
    return {"shares": rows}


def audits(tables, count=1, size=6, missing=False, temperature=1.0):
    """Return audits of so many models, and the tables of all of them together, none for one."""
    found = [ModelAudit(NAMES[n], "wasserstein", tables(size, n, missing), temperature) for n in range(count)]
    return found, {each.name: rows_of(each) for each in across_frames(found)} if count > 1 else {}


def everything(size=6, model=0, missing=False):
    """Return all tables in one."""
    made = (opinion_tables, steering_tables, bbq_tables, stereoset_tables)
    return {name: rows for tables in made for name, rows in tables(size, model, missing).items()}
