"""torchtitan's own train.py (of the end of 2024), with a made-up tokenizer and random tokens.

torchtitan_run.py FOLDER ARGUMENTS..."""
import os
import runpy
import sys

FOLDER = sys.argv[1]
sys.path.insert(0, FOLDER)
sys.argv = [os.path.join(FOLDER, "train.py"), *sys.argv[2:]]

import torch  # noqa: E402
import torchtitan.datasets as datasets  # noqa: E402

WORDS = 128256


class Tokenizer:
    n_words, bos_id, eos_id = WORDS, 1, 2


class Loader:
    def __init__(self, batch, length):
        self.batch, self.length = batch, length

    def __iter__(self):
        while True:
            tokens = torch.randint(0, WORDS, (self.batch, self.length + 1))
            yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


datasets.build_tokenizer = lambda *args, **kwargs: Tokenizer()
datasets.build_hf_data_loader = lambda name, path, tokenizer, batch, length, *args, **kwargs: Loader(batch, length)
runpy.run_path(sys.argv[0], run_name="__main__")
