import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apm_lab.data.prompts import read_prompts, split_prompts
from apm_lab.errors import DataError

SHARED = Path(__file__).parents[3] / "shared" / "data" / "prompts" / "prompts.jsonl.gz"


def written(folder, rows, name="p.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_packaged_set():
    prompts, digest = read_prompts()
    assert len(prompts) == 640
    assert len({prompt.text for prompt in prompts}) == 640
    assert {prompt.licence for prompt in prompts} == {"Apache-2.0"}
    assert read_prompts()[1] == digest


def test_unusual_line_ends_inside_a_text_split_nothing(tmp_path):
    texts = ["one\u2028two", "three\u0085four", "five\x1dsix\x0bseven"]
    prompts, _ = read_prompts(written(tmp_path, [{"text": text} for text in texts]))
    assert [prompt.text for prompt in prompts] == texts


def test_rows_under_a_non_commercial_licence_are_off_by_default(tmp_path):
    path = written(tmp_path, [{"text": "a", "license": "MIT"}, {"text": "b", "license": "CC-BY-NC-4.0"}])
    assert [prompt.text for prompt in read_prompts(path)[0]] == ["a"]
    assert len(read_prompts(path, noncommercial=True)[0]) == 2


def test_equal_texts_are_kept_once_and_the_digest_is_of_the_content(tmp_path):
    rows = [{"text": "a"}, {"text": "b"}, {"text": "a"}]
    plain, packed = written(tmp_path, rows), tmp_path / "p.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert len(read_prompts(plain)[0]) == 2
    assert read_prompts(plain) == read_prompts(packed)


@pytest.mark.parametrize("text", ["\ud800", 5, None, "", "   ", ["a"]])
def test_a_wrong_text_is_named_by_file_and_line(tmp_path, text):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"text": "fine"}) + "\n" + json.dumps({"text": text}) + "\n")
    with pytest.raises(DataError, match=r"p\.jsonl, line 2: field 'text'"):
        read_prompts(path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@given(content=st.binary(max_size=300))
@settings(max_examples=60)
def test_random_bytes_never_give_a_traceback(tmp_path_factory, content, suffix):
    path = tmp_path_factory.mktemp("bytes") / f"p.jsonl{suffix}"
    path.write_bytes(content)
    try:
        read_prompts(path)
    except DataError as fault:
        assert str(path) in str(fault)


@given(cut=st.integers(min_value=0, max_value=120))
@settings(max_examples=40)
def test_a_cut_gzip_is_named(tmp_path_factory, cut):
    whole = gzip.compress(b'{"text": "What is this?"}\n{"text": "And that?"}\n')
    path = tmp_path_factory.mktemp("cut") / "p.jsonl.gz"
    path.write_bytes(whole[: min(cut, len(whole) - 1)])
    with pytest.raises(DataError, match=r"p\.jsonl\.gz"):
        read_prompts(path)


def test_deep_nesting_is_a_named_fault(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text("[" * 100_000 + "\n")
    with pytest.raises(DataError, match="line 1"):
        read_prompts(path)


def test_pools_are_disjoint_and_cover_everything():
    prompts, _ = read_prompts()
    pools = split_prompts(prompts, 2, seed=3)
    parts = [pools.train, pools.test_history, pools.test_query]
    assert [len(part) for part in parts] == [320, 192, 128]
    assert len({prompt.text for part in parts for prompt in part}) == 640
    assert split_prompts(prompts, 2, seed=3) == pools
    assert split_prompts(prompts, 2, seed=4) != pools


def test_too_few_prompts_for_the_turns_asked_for():
    with pytest.raises(DataError, match=r"users\.turns=4"):
        split_prompts(read_prompts()[0][:7], 4, seed=0)


def test_the_real_prompts_read():
    if not SHARED.exists():
        pytest.skip("the shared data are not beside this checkout")
    assert len(read_prompts(SHARED)[0]) == 2037
    assert len(read_prompts(SHARED, noncommercial=True)[0]) == 2506
