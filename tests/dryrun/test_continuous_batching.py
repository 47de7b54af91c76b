"""transformers' continuous batching in a dry run: what is said of its pool of pages is what its own objects say."""
import importlib.util
import json
import pathlib

import pytest

from dry import python

found = importlib.util.find_spec("transformers")  # not imported: torch needs the simulated libraries
is_there = found and (pathlib.Path(found.origin).parent / "generation" / "continuous_batching" / "cache_allocators").is_dir()
pytestmark = pytest.mark.skipif(not is_there, reason="of transformers 5.23")

CONTINUOUS = '''
import json, torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
import transformers.generation.continuous_batching.cache as cache
made = []
real = cache.PagedAttentionCache.__init__
def noted(self, *args, **kwargs):
    real(self, *args, **kwargs)
    made.append(self)
cache.PagedAttentionCache.__init__ = noted
config = LlamaConfig(vocab_size=2000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=4, max_position_embeddings=512, dtype=torch.bfloat16)
config._attn_implementation = "sdpa"
with torch.device("cuda"):
    model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
wanted = GenerationConfig(max_new_tokens=6, eos_token_id=-1, pad_token_id=0, do_sample=False, num_blocks=16, max_batch_tokens=32)
model.generate_batch(inputs=[[5 + i + j for j in range(20)] for i in range(6)], generation_config=wanted, progress_bar=False)
pool = made[0]
print(json.dumps([pool.num_blocks, pool.max_tokens_read, pool.cache_tensor.untyped_storage().nbytes()]))
'''

def test_continuous_batching(tmp_path):
    (tmp_path / "batching.py").write_text(CONTINUOUS)
    done = python(tmp_path, tmp_path / "batching.py", options=["--gpu", "l4"])
    blocks, tokens, size = json.loads(done.output.splitlines()[-1])
    inference = done.report()["devices"][0]["inference"]
    told = [inference[f"kv_pool_{name}"] for name in ("blocks", "tokens", "bytes")]
    assert done.status == 0 and told[:2] == [blocks, tokens] and size <= told[2] < size + 512, (told, done.error)
