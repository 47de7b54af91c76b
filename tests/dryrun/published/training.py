"""Hugging Face optimum-benchmark's training: Trainer's defaults, batches of two. MODEL: its `max` figures, MB."""
import sys

import torch
import transformers as t
from measure import tell

WORDS, IMAGE = 16, 224  # words of a text, pixels
CLASSES = {"gpt2": (t.GPT2LMHeadModel, t.GPT2Config(bos_token_id=50256, eos_token_id=50256)),
           "roberta": (t.RobertaForMultipleChoice, t.RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1,
                                                                   layer_norm_eps=1e-5, pad_token_id=1)),
           "bert": (t.BertForMaskedLM, t.BertConfig()),
           "vit": (t.ViTForImageClassification, t.ViTConfig(num_labels=1000))}


class Samples(torch.utils.data.Dataset):
    def __init__(self, name):
        self.name = name

    def __len__(self):
        return 100

    def __getitem__(self, _):
        if self.name == "vit":
            return {"pixel_values": torch.rand(3, IMAGE, IMAGE), "labels": torch.tensor(1)}
        words = torch.randint(5, 1000, (WORDS,))
        if self.name == "roberta":
            words = words[None]  # one choice
            return {"input_ids": words, "attention_mask": torch.ones_like(words), "label": torch.tensor(0)}
        sample = {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": words}
        return {**sample, "token_type_ids": torch.zeros_like(words)} if self.name == "bert" else sample


name = sys.argv[1]
cls, config = CLASSES[name]
options = t.TrainingArguments("out", per_device_train_batch_size=2, max_steps=5, save_strategy="no", report_to=[], disable_tqdm=True)
t.Trainer(cls(config), options, train_dataset=Samples(name)).train()
tell(run="training")
