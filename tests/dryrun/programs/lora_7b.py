"""LoRA fine-tuning of a 7 B model: lora_7b.py MODEL."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16)
layers = ["q_proj", "v_proj", "k_proj", "o_proj"]
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=layers, task_type="CAUSAL_LM")).cuda()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
for _ in range(3):
    x = torch.randint(0, 32000, (2, 1024), device="cuda")
    model(input_ids=x, labels=x).loss.backward()
    print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), flush=True)
    optimizer.step()
    optimizer.zero_grad()
