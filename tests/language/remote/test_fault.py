import pytest

from apm_lab.errors import ConfigError, EndpointError
from apm_lab.language.remote.fault import may_pass, model_names, refusal, said


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"error": {"message": "no such\\nmodel", "code": 404}}', "no such model"),
        (b'{"error": "plain"}', "plain"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"message": "over"}', "over"),
        (b'{"error": {"code": 7}}', '{"code": 7}'),
        (b"<html>\n502</html>", "<html> 502</html>"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"", ""),
        (b'{"error": {"message": "wrong key sk-1 for sk-1"}}', "wrong key *** for ***"),
        (b"x" * 500, "x" * 397 + "..."),
    ],
)
def test_the_servers_own_words_are_shown_on_one_line_without_the_key(body, shown):
    assert said(body, "sk-1") == shown


def test_which_statuses_may_pass():
    passing = {status for status in range(400, 600) if may_pass(status)}
    assert {408, 409, 425, 429, 500, 502, 503, 504, 529} <= passing
    assert not passing & {400, 401, 402, 403, 404, 405, 413, 415, 422}


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "the request exceeds the available context size. try increasing the context size",
        "max_tokens is too large: 99999. This model's maximum context length is 8192 tokens",
        "Requested tokens (5000) exceed context window of 2048",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ],
)
def test_a_text_that_is_too_long_is_known_by_what_servers_say_of_it(message):
    fault = refusal("http://host/v1", "m", 400, message, None, None, 123)
    assert isinstance(fault, ConfigError)
    assert "the call has 123 bytes" in str(fault)
    assert message in str(fault)


@pytest.mark.parametrize(
    ("status", "key_env", "offered", "kind", "advice"),
    [
        (401, "MY_KEY", None, ConfigError, "check the key in MY_KEY"),
        (403, None, None, ConfigError, "it wants a key"),
        (404, None, ["mm", "other"], ConfigError, "offers other models; did you mean mm"),
        (404, None, ["m"], ConfigError, "it has the model but not this address"),
        (404, None, None, ConfigError, "check base_url"),
        (400, None, None, EndpointError, "check the values sent"),
        (422, None, None, EndpointError, "check the values sent"),
    ],
)
def test_each_refusal_says_what_to_do(status, key_env, offered, kind, advice):
    fault = refusal("http://host/v1", "m", status, "no", key_env, offered, 1)
    assert type(fault) is kind
    assert str(fault).startswith(f"http://host/v1 refused model m: HTTP {status}: no; ")
    assert advice in str(fault)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}]}, ["a", "b"]),
        ({"data": []}, []),
        ({"data": [{"name": "a"}, "b"]}, []),
        ({"data": None}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_models_that_an_endpoint_names(body, names):
    assert model_names(body) == names
