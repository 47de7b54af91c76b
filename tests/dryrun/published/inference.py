"""A model is loaded, and run once: Hugging Face optimum-benchmark's inference, kreas/FA_benchmarks, and a page of transformers' docs."""
import sys

import torch
import transformers as t
from measure import tell


def resnet50():
    import timm
    return timm.create_model("resnet50"), lambda model: model(torch.rand(1, 3, 224, 224, device="cuda"))


def vit():
    return (t.ViTForImageClassification(t.ViTConfig(num_labels=1000)),
            lambda model: model(pixel_values=torch.rand(1, 3, 224, 224, device="cuda")))


def llama():
    config = t.LlamaConfig(vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32,
                           max_position_embeddings=4096)
    words = torch.ones(1, 256, dtype=torch.long)
    torch.set_default_dtype(torch.float16)
    with torch.device("cuda"):  # in fp32 on the CPU it would take 27 GB
        model = t.LlamaForCausalLM(config)
    return model, lambda model: model(input_ids=words.cuda(), attention_mask=words.cuda(), use_cache=True)


def bert_large():
    return t.BertForSequenceClassification(t.BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                                                        intermediate_size=4096)), None


torch.set_grad_enabled(False)
model, run = globals()[sys.argv[1]]()
first = torch.ones((1, 1), device="cuda") if sys.argv[1] == "bert_large" else None  # that page's first step, where it takes the context
before = torch.cuda.memory_reserved()
model = model.eval().to("cuda")
tell(run="load", added=(torch.cuda.memory_reserved() - before) / 1e6)
if run:
    run(model)
    tell(run="forward")
