import codecs
import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apm_lab.data.prompts import PromptFile, prompts_digest, read_prompts, split_prompts
from apm_lab.errors import DataError
from apm_lab.records import Prompt

SHARED = Path(__file__).parents[3] / "shared" / "data" / "prompts" / "prompts.jsonl.gz"
FINE = b'{"text": "fine"}\n'


def written(folder, rows, name="p.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def texts_of(path, **settings):
    return [prompt.text for prompt in read_prompts(path, **settings)]


def test_the_packaged_set():
    prompts = read_prompts()
    assert len(prompts) == 640
    assert len({prompt.text for prompt in prompts}) == 640
    assert {prompt.licence for prompt in prompts} == {"Apache-2.0"}
    assert PromptFile().read() == prompts


def test_fields_of_a_row(tmp_path):
    full = {"text": "Why?", "source": "here", "license": "MIT", "more": [1]}
    bare = {"text": "How?", "source": None, "license": None}
    first, second = read_prompts(written(tmp_path, [full, bare]))
    assert (first.text, first.source, first.licence) == ("Why?", "here", "MIT")
    assert (second.source, second.licence) == ("", "")


def test_unusual_line_ends_inside_a_text_split_nothing(tmp_path):
    texts = ["one\u2028two", "three\u0085four", "five\x1dsix\x0bseven", "eight\u2029nine"]
    path = written(tmp_path, [{"text": text} for text in texts])
    assert texts_of(path) == texts
    packed = tmp_path / "p.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert texts_of(packed) == texts


def test_blank_lines_and_windows_line_ends_are_no_rows(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'\r\n{"text": "a"}\r\n\r\n  \n{"text": "b"}')
    assert texts_of(path) == ["a", "b"]


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path):
    plain, marked = tmp_path / "p.jsonl", tmp_path / "m.jsonl"
    plain.write_bytes(b"\n" + FINE)
    marked.write_bytes(codecs.BOM_UTF8 + b"\n" + FINE)
    assert read_prompts(marked) == read_prompts(plain)


@pytest.mark.parametrize(
    "licence",
    ["CC-BY-NC-4.0", "cc-by-nc-sa-4.0", "CC BY-NC 4.0", "cc_by_nc", "Attribution-NonCommercial 4.0", "Non-Commercial"],
)
def test_rows_under_a_non_commercial_licence_are_off_by_default(tmp_path, licence):
    path = written(tmp_path, [{"text": "a", "license": "MIT"}, {"text": "b", "license": licence}])
    assert texts_of(path) == ["a"]
    assert texts_of(path, noncommercial=True) == ["a", "b"]


@pytest.mark.parametrize("licence", ["MIT", "Apache-2.0", "CC-BY-4.0", "CC-BY-ND-4.0", "NCSA", "CC0-1.0"])
def test_other_licences_are_taken(tmp_path, licence):
    assert texts_of(written(tmp_path, [{"text": "a", "license": licence}])) == ["a"]


def test_a_file_of_non_commercial_rows_alone_says_which_key_takes_them(tmp_path):
    path = written(tmp_path, [{"text": "b", "license": "CC-BY-NC-4.0"}])
    with pytest.raises(DataError, match=r"no usable prompt.*dataset\.noncommercial=true"):
        read_prompts(path)


def test_equal_texts_are_kept_once_and_the_digest_is_of_the_content(tmp_path):
    rows = [{"text": "a"}, {"text": "b"}, {"text": "a"}]
    plain, packed = written(tmp_path, rows), tmp_path / "p.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert len(read_prompts(plain)) == 2
    assert read_prompts(plain) == read_prompts(packed)
    other = written(tmp_path, rows[:2], "other.jsonl")
    assert prompts_digest(read_prompts(other)) == prompts_digest(read_prompts(plain))


@pytest.mark.parametrize("text", ["\ud800", 5, None, "", "   ", ["a"], {"a": 1}, True, float("nan"), 10**4000])
def test_a_wrong_text_is_named_by_file_and_line(tmp_path, text):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"text": "fine"}) + "\n" + json.dumps({"text": text}) + "\n")
    with pytest.raises(DataError, match=r"p\.jsonl, line 2: field 'text'") as caught:
        read_prompts(path)
    assert len(str(caught.value)) < len(str(path)) + 150


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{}", "no field 'text'"),
        (b'["text"]', "expected a JSON object, found list"),
        (b"null", "expected a JSON object, found NoneType"),
        (b"NaN", "expected a JSON object, found float"),
        (b'{"text": "cut', "not a JSON object"),
        (b'{"text": "a"} {"text": "b"}', "not a JSON object"),
        (b'{"text": "caf\xe9"}', "not a JSON object"),
        (b'{"text": "\xed\xa0\x80"}', "field 'text' holds half of a surrogate pair"),
        (b'{"text": "a", "source": "\\udfff"}', "field 'source' holds half of a surrogate pair"),
        (b'{"text": ' + b"9" * 5000 + b"}", "not a JSON object"),
        (b'{"text": ' + b"[" * 100_000, "not a JSON object"),
        (b'{"text": "a", "more": ' + b'{"a":' * 100_000, "not a JSON object"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_wrong_row_is_named_by_file_and_line(tmp_path, line, message, packed):
    path = tmp_path / ("p.jsonl.gz" if packed else "p.jsonl")
    content = FINE + b"\n" + line + b"\n" + FINE
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError) as caught:
        read_prompts(path)
    assert f"{path}, line 3: " in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_can_not_be_opened(tmp_path):
    with pytest.raises(DataError, match=r"missing\.jsonl does not exist.*dataset\.path"):
        read_prompts(tmp_path / "missing.jsonl")
    with pytest.raises(DataError, match="can't be read: Is a directory"):
        read_prompts(tmp_path)
    with pytest.raises(DataError, match="no usable prompt"):
        read_prompts(written(tmp_path, []))


@pytest.mark.parametrize(
    "content", [FINE, b"\x1f\x8b", b"\x1f\x8b\x08\xff" + bytes(40), gzip.compress(FINE, mtime=0) + b"more"]
)
def test_what_is_no_gzip_file_is_named(tmp_path, content):
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"p\.jsonl\.gz is no complete gzip file"):
        read_prompts(path)


def test_a_gzip_cut_at_any_byte_is_named(tmp_path):
    whole = gzip.compress(b'{"text": "What is this?"}\n{"text": "And that?"}\n', mtime=0)
    path = tmp_path / "p.jsonl.gz"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"p\.jsonl\.gz (is no complete gzip|holds no usable prompt)"):
            read_prompts(path)


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x00", "\x1c", "\ufeff", "\U0001f600", "\u202e"])
def test_a_text_keeps_its_characters(tmp_path, character):
    text = f"one{character}two"
    assert texts_of(written(tmp_path, [{"text": text}, {"text": "fine"}])) == [text, "fine"]
    escaped = tmp_path / "escaped.jsonl"
    escaped.write_text(json.dumps({"text": text}) + "\n", encoding="ascii")
    assert texts_of(escaped) == [text]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("text", "source", "license")
NEARLY_ROWS = st.lists(
    JSON_VALUES | st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES | st.just("text"), max_size=4), max_size=4
).map(lambda rows: "\n".join(map(json.dumps, rows)).encode())

PIECES = st.sampled_from(
    [
        *(
            FINE,
            b'{"text": "',
            b'"}',
            b"\n",
            b"\r",
            b"\r\n",
            b"\x00",
            b"\\u0000",
            b"\\ud800",
            b"\\udc00",
            b"\x85",
            b"\xff",
        ),
        *(codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF32_BE, '{"text": "a"}\n'.encode("utf-16")),
        *("\u2028".encode(), "\x85".encode(), "\u2029".encode(), "\U0001f600".encode(), b"\xed\xa0\x80", b"\xc0\x80"),
        *(b"1e999", b"-0", b"9" * 5000, b"-Infinity", b"NaN", b"1" + b"0" * 400, b'"a": ', b'"text": ', b", ", b": "),
        *(
            b"[" * 20_000,
            b'{"text":' * 20_000,
            b"]" * 20_000,
            b"{",
            b"}",
            b"[",
            b"]",
            b'"',
            b"null",
            b"true",
            b'"license": 1e400',
        ),
    ]
)
FRAGMENTS = st.lists(PIECES, max_size=10).map(b"".join)


def only_named_faults(path):
    try:
        prompts = read_prompts(path)
    except DataError as fault:
        assert str(path) in str(fault)
        assert re.search(r"line \d+: |no usable prompt|no complete gzip file", str(fault))
        assert len(str(fault)) < len(str(path)) + 300
    else:
        assert all(prompt.text.strip() for prompt in prompts)
        "".join(prompt.text + prompt.source + prompt.licence for prompt in prompts).encode()


@pytest.mark.parametrize("suffix", ["", ".gz"])
@given(content=st.binary(max_size=300) | NEARLY_ROWS | FRAGMENTS)
@settings(max_examples=100)
def test_no_content_gives_a_traceback(tmp_path_factory, content, suffix):
    path = tmp_path_factory.mktemp("bytes") / f"p.jsonl{suffix}"
    path.write_bytes(content)
    only_named_faults(path)


@given(content=st.binary(max_size=100) | NEARLY_ROWS | FRAGMENTS, place=st.integers(0, 400), bits=st.integers(0, 255))
@settings(max_examples=100)
def test_no_damage_to_a_gzip_gives_a_traceback(tmp_path_factory, content, place, bits):
    packed = bytearray(gzip.compress(FINE + content, mtime=0))
    packed[place % len(packed)] ^= bits
    path = tmp_path_factory.mktemp("bits") / "p.jsonl.gz"
    path.write_bytes(packed)
    only_named_faults(path)


def test_pools_are_disjoint_and_cover_everything():
    prompts = read_prompts()
    pools = split_prompts(prompts, 2, seed=3)
    parts = [pools.train, pools.test_history, pools.test_query]
    assert [len(part) for part in parts] == [320, 192, 128]
    assert len({prompt.text for part in parts for prompt in part}) == 640
    assert split_prompts(prompts, 2, seed=3) == pools
    assert split_prompts(prompts, 2, seed=4) != pools


@pytest.mark.parametrize(("count", "shares"), [(10, [5, 3, 2]), (7, [4, 2, 1]), (101, [50, 30, 21])])
def test_pools_of_other_sizes(count, shares):
    pools = split_prompts(read_prompts()[:count], 1, seed=0)
    assert [len(pools.train), len(pools.test_history), len(pools.test_query)] == shares


@pytest.mark.parametrize(("count", "turns"), [(7, 4), (1, 1), (2, 1), (9, 4), (0, 1)])
def test_too_few_prompts_for_the_turns_asked_for(count, turns):
    with pytest.raises(DataError, match=rf"{count} prompts .*users\.turns={turns}.*dataset\.path"):
        split_prompts(read_prompts()[:count], turns, seed=0)


def test_the_real_prompts_read():
    if not SHARED.exists():
        pytest.skip("the shared data are not beside this checkout")
    assert len(read_prompts(SHARED)) == 2037
    assert len(read_prompts(SHARED, noncommercial=True)) == 2506


def test_the_digest_is_of_the_texts_in_their_order():
    one, two = Prompt("ab"), Prompt("c", source="elsewhere")
    assert prompts_digest([one, two]) == prompts_digest([Prompt("ab"), Prompt("c")])
    assert len({prompts_digest(each) for each in ([one, two], [two, one], [Prompt("a"), Prompt("bc")], [one])}) == 4
