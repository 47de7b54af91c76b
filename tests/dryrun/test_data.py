"""--fake-data: data sets that are not there are made up; what is there is left alone, and without the option nothing is."""
import importlib.util

import pytest

from dry import python

FAKE = ["--fake-data"]


def test_images(tmp_path):
    done = python(tmp_path, "made_up.py", "images", options=FAKE)
    assert done.output == f"(8, 3, 224, 224) torch.int64 10 {8 * 3 * 224 * 224}\n", done.error
    assert "image folder absent/train is made up" in done.error and not (tmp_path / "absent").exists()


def test_tokens(tmp_path):
    done = python(tmp_path, "made_up.py", "tokens", options=FAKE)
    assert done.output == "True uint16 True\n", done.error


def test_nothing_without_the_option(tmp_path):
    done = python(tmp_path, "made_up.py", "tokens")
    assert done.status == 1 and "FileNotFoundError" in done.error


@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="needs datasets")
@pytest.mark.parametrize("name,columns", [("stanfordnlp/imdb", ["text", "label"]), ("trl-lib/Capybara", ["messages"]),
                                          ("some/other", ["text", "label"])])
def test_names_of_data_sets(name, columns, tmp_path):
    done = python(tmp_path, "made_up.py", "named", name, options=FAKE, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    assert done.output == f"['test', 'train', 'validation'] {columns} {'list' if columns == ['messages'] else 'str'}\n", done.error


def test_tokens_of_tiktoken(tmp_path):
    """Of a stand-in for it that finds no net."""
    (tmp_path / "tiktoken").mkdir()
    (tmp_path / "tiktoken" / "__init__.py").write_text("")
    (tmp_path / "tiktoken" / "load.py").write_text("""def load_tiktoken_bpe(file, expected_hash=None):
    raise OSError("no net")
def data_gym_to_mergeable_bpe_ranks(vocab_bpe_file, encoder_json_file):
    raise OSError("no net")
""")
    (tmp_path / "x.py").write_text("""import torch, tiktoken.load as load
for ranks in (load.load_tiktoken_bpe("https://x/cl100k_base.tiktoken"),
              load.data_gym_to_mergeable_bpe_ranks(vocab_bpe_file="https://x/vocab.bpe", encoder_json_file="https://x/encoder.json")):
    print(len(ranks), len(set(ranks.values())), ranks[b"a"], torch.tensor(ranks[b"z"], device="cuda").item())
""")
    done = python(tmp_path, str(tmp_path / "x.py"), options=FAKE, PYTHONPATH=str(tmp_path))
    assert done.output.splitlines() == ["100256 100256 97 122", "50256 50256 97 122"], done.error
