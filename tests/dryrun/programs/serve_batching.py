"""transformers' continuous batching: answers six requests of made-up tokens. Prints what it has by its own objects."""
import json

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.generation.continuous_batching import cache

REQUESTS, TOKENS = 6, 12
made, passes = [], []
begin = cache.PagedAttentionCache.__init__


def note(self, *args, **kwargs):
    begin(self, *args, **kwargs)
    made.append(self)


cache.PagedAttentionCache.__init__ = note
config = LlamaConfig(vocab_size=32000, hidden_size=512, intermediate_size=1536, num_hidden_layers=4, num_attention_heads=8,
                     num_key_value_heads=4, max_position_embeddings=4096, dtype=torch.bfloat16)
config._attn_implementation = "sdpa"
with torch.device("cuda"):
    model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
model.register_forward_hook(lambda *_: passes.append(1))
wanted = GenerationConfig(max_new_tokens=TOKENS, eos_token_id=-1, pad_token_id=0, do_sample=False, max_batch_tokens=256)
asked = [[5 + i + j for j in range(20)] for i in range(REQUESTS)]
answers = model.generate_batch(inputs=asked, generation_config=wanted, progress_bar=False)
assert [len(answer.generated_tokens) for answer in answers.values()] == [TOKENS] * REQUESTS
pool = made[0]
print(json.dumps({"weights": sum(each.nbytes for each in model.parameters()), "passes": len(passes), "answered": len(answers),
                  "pool": pool.cache_tensor.untyped_storage().nbytes(), "tokens": pool.max_tokens_read, "blocks": pool.num_blocks}))
