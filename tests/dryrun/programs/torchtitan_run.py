"""torchtitan's own train.py (of the end of 2024, or of its release 0.2.2), with a made-up tokenizer and random tokens.

torchtitan_run.py FOLDER ARGUMENTS..."""
import os
import runpy
import sys

FOLDER = sys.argv[1]
sys.path.insert(0, FOLDER)
NEW = os.path.join(FOLDER, "torchtitan", "train.py")
sys.argv = [NEW if os.path.exists(NEW) else os.path.join(FOLDER, "train.py"), *sys.argv[2:]]

import torch  # noqa: E402

WORDS = 128256


class Tokenizer:
    n_words, bos_id, eos_id = WORDS, 1, 2


class Loader:
    def __init__(self, batch, length):
        self.batch, self.length = batch, length

    def __iter__(self):
        while True:
            tokens = torch.randint(0, WORDS, (self.batch, self.length + 1))
            words = tokens[:, :-1].contiguous()
            yield {"input": words} if sys.argv[0] == NEW else words, tokens[:, 1:].contiguous()

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def new_loader(dp_world_size, dp_rank, tokenizer, job_config, infinite=True):
    return Loader(job_config.training.local_batch_size, job_config.training.seq_len)


if sys.argv[0] == NEW:
    import torchtitan.models.llama3 as llama3
    llama3.build_hf_tokenizer, llama3.build_text_dataloader = lambda *args, **kwargs: Tokenizer(), new_loader
    runpy.run_module("torchtitan.train", run_name="__main__")
    sys.exit(0)
import torchtitan.datasets as datasets  # noqa: E402

datasets.build_tokenizer = lambda *args, **kwargs: Tokenizer()
datasets.build_hf_data_loader = lambda name, path, tokenizer, batch, length, *args, **kwargs: Loader(batch, length)
runpy.run_path(sys.argv[0], run_name="__main__")
