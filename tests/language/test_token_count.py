import json

from apm_lab.language.bill import bill
from apm_lab.language.foresight import Forecast
from apm_lab.language.hf import HfModel
from apm_lab.language.token_count import count_tokens


def tokenizer(folder):
    """Write a tokenizer of words into `folder`."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"[UNK]": 0, "one": 1}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.save(str(folder / "tokenizer.json"))


def test_tokens_are_counted_by_the_file_beside_the_weights(tmp_path):
    tokenizer(tmp_path)
    assert count_tokens(str(tmp_path), ["one two three", "", "one"]) == 4
    assert count_tokens(str(tmp_path / "elsewhere"), ["one"]) is None


class Shelf:
    def measured(self):
        return type("Measured", (), {"rows": 0, "counted": 0})


class Judge:
    def __init__(self, model):
        self._model = model


def test_a_plan_counts_with_the_tokenizer_of_a_model_that_is_not_loaded(tmp_path):
    """Also of the model inside a judge; the folder has no weights that could be."""
    tokenizer(tmp_path)
    model = HfModel(str(tmp_path))
    for asked in (model, Judge(model)):
        forecast = Forecast("model", ("generate", "m", "hf", json.dumps({})), asked, Shelf(), 10, 0, 0, 1200)
        forecast.samples = ["one two six", "one"]
        line = bill(forecast, {})
        assert (line.tokens_in, line.basis) == (round(1200 * 4 / 14), "tokenizer")
