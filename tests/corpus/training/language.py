"""Text and speech: training from nothing and fine-tuning, by hand and by the libraries' trainers."""
import contextlib
import math
import os
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


# --- a small GPT -----------------------------------------------------------------------------------------------------------

@dataclass
class GPTConfig:
    block_size: int = 64
    vocab_size: int = 2048
    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 192
    dropout: float = 0.1
    bias: bool = False


class LayerNorm(nn.Module):
    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_dropout, self.resid_dropout = nn.Dropout(config.dropout), nn.Dropout(config.dropout)
        mask = torch.tril(torch.ones(config.block_size, config.block_size))
        self.register_buffer("bias", mask.view(1, 1, config.block_size, config.block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (part.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
                   for part in self.c_attn(x).split(self.n_embd, dim=2))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = self.attn_dropout(F.softmax(att, dim=-1))
        return self.resid_dropout(self.c_proj((att @ v).transpose(1, 2).contiguous().view(B, T, C)))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.attn = LayerNorm(config.n_embd, config.bias), CausalSelfAttention(config)
        self.ln_2, self.mlp = LayerNorm(config.n_embd, config.bias), MLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(config.vocab_size, config.n_embd),
            wpe=nn.Embedding(config.block_size, config.n_embd),
            drop=nn.Dropout(config.dropout),
            h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
            ln_f=LayerNorm(config.n_embd, bias=config.bias),
        ))
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss

    def configure_optimizers(self, weight_decay, learning_rate):
        params = {name: p for name, p in self.named_parameters() if p.requires_grad}
        groups = [{"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": weight_decay},
                  {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95), fused=True)


def nano_gpt(record):
    """fp16 with a scaler, gradients of four micro-batches, the next batch fetched while the last one is computed, a loss
    estimated before every second step."""
    data = torch.randint(0, 2048, (100_000,))

    def get_batch():
        ix = torch.randint(len(data) - 64, (4,))
        x = torch.stack([data[i:i + 64] for i in ix]).pin_memory().to("cuda", non_blocking=True)
        y = torch.stack([data[i + 1:i + 65] for i in ix]).pin_memory().to("cuda", non_blocking=True)
        record.note("input", [x, y])
        return x, y

    ctx = torch.amp.autocast(device_type="cuda", dtype=torch.float16)
    model = GPT(GPTConfig())
    model.to("cuda")
    scaler = torch.amp.GradScaler("cuda")
    optimizer = model.configure_optimizers(0.1, 6e-4)
    record.watch([model], [optimizer])

    @torch.no_grad()
    def estimate_loss():
        model.eval()
        losses = torch.zeros(2)
        with record.free_choice():
            for k in range(2):
                X, Y = get_batch()
                with ctx:
                    logits, loss = model(X, Y)
                losses[k] = loss.item()
        model.train()
        return losses.mean()

    X, Y = get_batch()
    for step in range(4):
        if step % 2 == 0:
            estimate_loss()
        for micro_step in range(4):
            with ctx:
                logits, loss = model(X, Y)
                loss = loss / 4
            if micro_step == 2:
                record.take("fwd", step, (X, Y))
            X, Y = get_batch()
            scaler.scale(loss).backward()
            record.library_tensors = [scaler._scale, scaler._growth_tracker]
        record.take("bwd", step, (X, Y))
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        record.take("step", step, (X, Y))


# --- fine-tuning with transformers -----------------------------------------------------------------------------------------

class Sentences(Dataset):
    def __init__(self, count, length=48, vocabulary=3000, labels=3):
        self.count, self.length, self.vocabulary, self.labels = count, length, vocabulary, labels

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return {"input_ids": torch.randint(5, self.vocabulary, (self.length,)),
                "attention_mask": torch.ones(self.length, dtype=torch.long), "labels": torch.tensor(index % self.labels)}


def trainer_distilbert(record):
    """transformers' Trainer: warm-up, accumulation, an evaluation after each epoch."""
    from transformers import (DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainerCallback,
                              TrainingArguments)

    config = DistilBertConfig(vocab_size=3000, dim=192, n_layers=3, n_heads=4, hidden_dim=768, num_labels=3)
    arguments = TrainingArguments(
        output_dir=os.path.dirname(record.path) + "/trainer_distilbert", per_device_train_batch_size=4,
        per_device_eval_batch_size=8, gradient_accumulation_steps=2, num_train_epochs=2, learning_rate=5e-5, warmup_steps=2,
        weight_decay=0.01, eval_strategy="epoch", save_strategy="no", logging_steps=1, report_to=[], disable_tqdm=True)

    class Marks(TrainerCallback):
        def on_train_begin(self, args, state, control, model=None, **others):
            record.watch([model], [])

        def on_pre_optimizer_step(self, args, state, control, **others):
            record.take("bwd", state.global_step)

        def on_optimizer_step(self, args, state, control, optimizer=None, **others):
            record.optimizers = [optimizer.optimizer]
            record.take("opt", state.global_step)

        def on_step_end(self, args, state, control, **others):
            record.take("step", state.global_step)

    class Classifier(DistilBertForSequenceClassification):
        def forward(self, input_ids, attention_mask=None, labels=None, **others):
            record.note("input", [input_ids, attention_mask, labels])
            with contextlib.nullcontext() if self.training else record.free_choice():
                return super().forward(input_ids, attention_mask, labels=labels, **others)

    trainer = Trainer(model=Classifier(config), args=arguments, train_dataset=Sentences(16),
                      eval_dataset=Sentences(8), callbacks=[Marks()],
                      compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())})
    trainer.train()


def accelerate_classifier(record):
    """As in accelerate's example of text classification, in bfloat16 and with accumulation."""
    from accelerate import Accelerator
    from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    model = BertForSequenceClassification(BertConfig(vocab_size=3000, hidden_size=192, num_hidden_layers=3,
                                                     num_attention_heads=4, intermediate_size=768, num_labels=3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    train_loader, eval_loader = DataLoader(Sentences(24), batch_size=4, shuffle=True), DataLoader(Sentences(8), batch_size=8)
    scheduler = get_linear_schedule_with_warmup(optimizer, 1, 6)
    model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, eval_loader, scheduler)
    record.watch([model], [optimizer])
    model.train()
    for step, batch in enumerate(train_loader):
        with accelerator.accumulate(model):
            outputs = model(**batch)
            record.take("fwd", step, batch)
            accelerator.backward(outputs.loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            record.take("bwd", step, batch)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            record.take("step", step, batch)
    model.eval()
    for batch in eval_loader:
        with torch.no_grad(), record.free_choice():
            logits = model(**batch).logits
            predictions, references = accelerator.gather_for_metrics((logits.argmax(-1), batch["labels"]))
        record.take("eval", 100, batch)
        (predictions.cpu() == references.cpu()).float().mean()


def roberta_by_hand(record):
    """A loop by hand: lower rates for lower layers, gradients clipped, the embeddings frozen for the first steps."""
    from transformers import RobertaConfig, RobertaForSequenceClassification

    model = RobertaForSequenceClassification(RobertaConfig(
        vocab_size=3000, hidden_size=192, num_hidden_layers=4, num_attention_heads=4, intermediate_size=768,
        max_position_embeddings=80, num_labels=3)).cuda()
    groups = [{"params": model.classifier.parameters(), "lr": 1e-3}]
    groups += [{"params": layer.parameters(), "lr": 5e-5 * 0.8 ** depth}
               for depth, layer in enumerate(reversed(model.roberta.encoder.layer))]
    groups.append({"params": model.roberta.embeddings.parameters(), "lr": 1e-5})
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    record.watch([model], [optimizer])
    model.roberta.embeddings.requires_grad_(False)
    running = 0.0
    for step, batch in enumerate(DataLoader(Sentences(24), batch_size=4)):
        if step == 3:
            model.roberta.embeddings.requires_grad_(True)
        batch = {key: value.to("cuda") for key, value in batch.items()}
        optimizer.zero_grad()
        loss = model(**batch).loss
        record.take("fwd", step, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        record.take("bwd", step, batch)
        optimizer.step()
        running += loss.item()
        record.take("step", step, batch)


def lora_llama(record):
    """peft's LoRA on a small Llama, with gradient checkpointing."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(vocab_size=4000, hidden_size=256, intermediate_size=688, num_hidden_layers=4,
                                         num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=256))
    model = model.to(torch.bfloat16).cuda()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    model.config.use_cache = False
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, task_type="CAUSAL_LM",
                                             target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj"]))
    model.print_trainable_parameters()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    record.watch([model], [optimizer])
    model.train()
    for step in range(4):
        tokens = torch.randint(0, 4000, (2, 96)).cuda()
        batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens.clone()}
        loss = model(**batch).loss
        record.take("fwd", step, batch)
        loss.backward()
        record.take("bwd", step, batch)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, batch)


# --- sequence to sequence ----------------------------------------------------------------------------------------------------

class EncoderRNN(nn.Module):
    def __init__(self, words, hidden):
        super().__init__()
        self.embedding, self.gru, self.dropout = nn.Embedding(words, hidden), nn.GRU(hidden, hidden, batch_first=True), nn.Dropout(0.1)

    def forward(self, source):
        return self.gru(self.dropout(self.embedding(source)))


class AttnDecoderRNN(nn.Module):
    def __init__(self, words, hidden):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(words, hidden), nn.GRU(2 * hidden, hidden, batch_first=True)
        self.Wa, self.Ua, self.Va = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)
        self.out = nn.Linear(hidden, words)

    def forward(self, encoded, hidden, target=None, length=10):
        word = torch.zeros(len(encoded), 1, dtype=torch.long, device=encoded.device)
        outputs = []
        for i in range(length):
            query = hidden.permute(1, 0, 2)
            scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(encoded))).squeeze(2).unsqueeze(1)
            context = torch.bmm(F.softmax(scores, dim=-1), encoded)
            output, hidden = self.gru(torch.cat((self.embedding(word), context), dim=2), hidden)
            outputs.append(self.out(output))
            word = target[:, i].unsqueeze(1) if target is not None else outputs[-1].argmax(-1).detach().clamp(0, 1999)
        return F.log_softmax(torch.cat(outputs, dim=1), dim=-1)


def translation_with_attention(record):
    """PyTorch's tutorial of translation: two optimizers, the target is fed; at the end words are chosen greedily."""
    encoder, decoder = EncoderRNN(2000, 256).cuda(), AttnDecoderRNN(2000, 256).cuda()
    encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=1e-3)
    criterion = nn.NLLLoss()
    record.watch([encoder, decoder], [encoder_optimizer, decoder_optimizer])
    for step in range(4):
        source = torch.randint(0, 2000, (16, 10)).cuda()
        target = torch.randint(0, 2000, (16, 10)).cuda()
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        encoded, hidden = encoder(source)
        outputs = decoder(encoded, hidden, target)
        loss = criterion(outputs.view(-1, outputs.size(-1)), target.view(-1))
        record.take("fwd", step, (source, target))
        loss.backward()
        record.take("bwd", step, (source, target))
        encoder_optimizer.step()
        decoder_optimizer.step()
        record.take("step", step, (source, target))
    with torch.no_grad(), record.free_choice():
        source = torch.randint(0, 2000, (1, 10)).cuda()
        encoded, hidden = encoder(source)
        words = decoder(encoded, hidden).topk(1)[1].squeeze()
        record.take("translate", 4, (source,))
        words.tolist()


# --- speech ---------------------------------------------------------------------------------------------------------------

class SpeechEncoder(nn.Module):
    def __init__(self, mels=80, width=160, letters=32):
        super().__init__()
        self.subsample = nn.Sequential(nn.Conv1d(mels, width, 3, 2, 1), nn.GELU(), nn.Conv1d(width, width, 3, 2, 1), nn.GELU())
        self.lstm = nn.LSTM(width, 256, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)
        self.norm, self.head = nn.LayerNorm(512), nn.Linear(512, letters)

    def forward(self, features, lengths):
        x = self.subsample(features).transpose(1, 2)
        lengths = torch.div(lengths + 3, 4, rounding_mode="floor")
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        x, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(self.norm(x)).log_softmax(-1), lengths


def speech_with_ctc(record):
    """Utterances of different lengths; the spectrum is masked on the device, the batches grow and shrink."""
    model = SpeechEncoder().cuda()
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
    record.watch([model], [optimizer])
    for step, frames in enumerate((160, 120, 200, 180, 140)):
        lengths = torch.randint(frames // 2, frames + 1, (6,)).sort(descending=True).values
        lengths[0] = frames
        features = torch.randn(6, 80, frames).cuda(non_blocking=True)
        targets, target_lengths = torch.randint(1, 32, (6, 12)).cuda(), torch.full((6,), 12)
        start = int(torch.randint(0, 60, ()))
        features[:, start:start + 15] = 0
        log_probs, output_lengths = model(features, lengths)
        loss = criterion(log_probs.transpose(0, 1), targets, output_lengths, target_lengths)
        record.take("fwd", step, (features, targets))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        record.take("bwd", step, (features, targets))
        optimizer.step()
        schedule.step()
        record.take("step", step, (features, targets))
