import inspect

import pytest

from apm_lab import errors
from apm_lab.errors import ApmLabError, ConfigError, did_you_mean, require_known

METHODS = ("routing", "routing_oracle", "nonpersonalized", "rag_summary", "rag_exemplar")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nonpersonalised", "; did you mean nonpersonalized?"),
        ("ROUTING", "; did you mean routing, routing_oracle?"),
        ("routing_orakle", "; did you mean routing_oracle, routing?"),
        ("rag", "; one of: nonpersonalized, rag_exemplar, rag_summary, routing, routing_oracle"),
        ("", "; one of: nonpersonalized, rag_exemplar, rag_summary, routing, routing_oracle"),
    ],
)
def test_the_nearest_names_else_all_of_them(name, said):
    assert did_you_mean(name, METHODS) == said


def test_names_are_given_as_they_are_spelt_once_and_at_most_three():
    assert did_you_mean("gaussian", ["Gaussian", "Gaussian"]) == "; did you mean Gaussian?"
    assert did_you_mean("key", [f"key{n}" for n in range(9)]).count("key") == 3
    assert did_you_mean("key", [f"key{n}" for n in range(9)], most=1).count("key") == 1


def test_without_names_there_is_nothing_to_say():
    assert did_you_mean("routing", []) == ""


def test_all_unknown_names_are_told_at_once():
    require_known("pool.x: the model lacks", ["casual", "gentle"], ("gentle", "casual"))
    require_known("pool.x: the model lacks", [], ())
    with pytest.raises(ConfigError) as fault:
        require_known("pool.x: the model lacks", ["casul", "gentle", "verse"], ("gentle", "casual"))
    assert str(fault.value) == (
        "pool.x: the model lacks 'casul'; did you mean casual?; nor 'verse'; one of: casual, gentle"
    )


def test_a_name_that_can_not_be_printed_is_told_all_the_same():
    with pytest.raises(ConfigError, match="did you mean casual") as fault:
        require_known("pool.x: the model lacks", ["casual\ud800"], ["casual"])
    assert str(fault.value).isascii()


def test_every_error_of_the_family_is_caught_by_its_name():
    family = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)]
    assert len(family) == 10
    assert all(issubclass(kind, ApmLabError) for kind in family)
    assert not issubclass(ApmLabError, (ValueError, TypeError, OSError))  # a bug must not pass for a mistake
