"""Language models that are trained further: whole, by adapters, by preferences, from packed sequences."""
import math
import os
import weakref

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda")


def tiny_llama(cls=None, **options):
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=4000, hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
        max_position_embeddings=256, pad_token_id=0, use_cache=False, **options)
    return getattr(transformers, cls or "LlamaForCausalLM")(config)


class Texts(Dataset):
    """Token ids with their labels; the prompt's labels are left out of the loss."""

    def __init__(self, count, length=96, vocab=4000, prompt=24):
        self.count, self.length, self.vocab, self.prompt = count, length, vocab, prompt

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        ids = torch.randint(1, self.vocab, (self.length,))
        labels = ids.clone()
        labels[:self.prompt] = -100
        return {"input_ids": ids, "attention_mask": torch.ones(self.length, dtype=torch.long), "labels": labels}


# --- the whole model ----------------------------------------------------------------------------------------------------------

def full_finetune_accumulated(record):
    """bfloat16 autocast, four micro-batches a step, foreach AdamW, cosine schedule, an evaluation in the middle."""
    model = tiny_llama().to(device)
    decay = [p for n, p in model.named_parameters() if p.ndim > 1]
    other = [p for n, p in model.named_parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": other, "weight_decay": 0.0}],
                                  lr=2e-5, betas=(0.9, 0.95), foreach=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
    train_loader, eval_loader = DataLoader(Texts(80), batch_size=4, shuffle=True), DataLoader(Texts(8), batch_size=4)
    accumulation, step, running = 4, 0, torch.zeros((), device=device)
    record.watch([model], [optimizer])
    model.train()
    for i, batch in enumerate(train_loader):
        batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
        record.note("input", batch.values())
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(**batch).loss / accumulation
        last = (i + 1) % accumulation == 0
        if last:
            record.take("fwd", step, batch)
        loss.backward()
        running += loss.detach()
        if not last:
            continue
        record.take("bwd", step, batch)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        record.take("step", step, batch)
        step += 1
        if step == 3:
            model.eval()
            with torch.no_grad(), record.free_choice():
                for held_out in eval_loader:
                    held_out = {k: v.to(device) for k, v in held_out.items()}
                    record.note("input", held_out.values())
                    model(**held_out).loss.item()
            del held_out
            model.train()


def trainer_sft(record):
    """transformers' Trainer: a Mistral in bfloat16 with its Adafactor, two batches a step."""
    from transformers import MistralConfig, MistralForCausalLM, Trainer, TrainerCallback, TrainingArguments

    model = MistralForCausalLM(MistralConfig(
        vocab_size=4000, hidden_size=256, intermediate_size=768, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=2,
        sliding_window=64, use_cache=False))

    class Marks(TrainerCallback):
        def on_train_begin(self, args, state, control, model=None, **others):
            record.watch([model], [])

        def on_pre_optimizer_step(self, args, state, control, optimizer=None, **others):
            record.optimizers = [optimizer.optimizer]
            record.take("bwd", state.global_step, seen["batch"])

        def on_optimizer_step(self, args, state, control, **others):
            record.take("opt", state.global_step, seen["batch"])

        def on_step_end(self, args, state, control, **others):
            record.take("step", state.global_step - 1, seen["batch"])

    class Tuner(Trainer):
        def compute_loss(self, model, inputs, *arguments, **options):
            seen["batch"] = inputs
            record.note("input", inputs.values())
            return super().compute_loss(model, inputs, *arguments, **options)

    seen = {"batch": {}}
    arguments = TrainingArguments(
        output_dir=os.path.dirname(record.path) + "/trainer_sft", per_device_train_batch_size=4, gradient_accumulation_steps=2,
        max_steps=5, bf16=True, optim="adafactor", learning_rate=1e-4, save_strategy="no", report_to=[], disable_tqdm=True,
        logging_steps=2, max_grad_norm=1.0)
    Tuner(model=model, args=arguments, train_dataset=Texts(64), callbacks=[Marks()]).train()


# --- adapters -----------------------------------------------------------------------------------------------------------------

def lora_peft_checkpointing(record):
    """peft's LoRA on all projections of a bfloat16 model; activations are computed again in backward."""
    from peft import LoraConfig, TaskType, get_peft_model

    model = tiny_llama().to(device, dtype=torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(task_type=TaskType.CAUSAL_LM, r=16, lora_alpha=32, lora_dropout=0.05,
                                             target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"]))
    optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=2e-4)
    record.watch([model], [optimizer])
    embedded = []  # the output that requires a gradient, and so gets one, as long as the graph keeps it
    model.get_input_embeddings().register_forward_hook(lambda module, inputs, output: embedded.append(weakref.ref(output)))
    record.hold("gradient", lambda: [output().grad for output in embedded if output() is not None])
    for step, batch in enumerate(DataLoader(Texts(20, length=128), batch_size=4)):
        batch = {k: v.to(device) for k, v in batch.items()}
        out = model(**batch)
        record.take("fwd", step, batch)
        out.loss.backward()
        record.take("bwd", step, batch)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, batch)


class LoRALinear(nn.Module):
    def __init__(self, base, r=8, alpha=16):
        super().__init__()
        self.base, self.scale = base, alpha / r
        base.weight.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(r, base.in_features, device=base.weight.device) / math.sqrt(r))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, r, device=base.weight.device))

    def forward(self, x):
        return self.base(x) + self.scale * F.linear(F.linear(x, self.lora_a), self.lora_b)


def add_lora(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, LoRALinear(child))
        else:
            add_lora(child)


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, mask=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
        att = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.out(att.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Decoder(nn.Module):
    def __init__(self, vocab=4000, d=256, layers=4, heads=8, length=256):
        super().__init__()
        self.embed, self.pos = nn.Embedding(vocab, d), nn.Embedding(length, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, ids, mask=None, positions=None):
        positions = torch.arange(ids.shape[1], device=ids.device) if positions is None else positions
        x = self.embed(ids) + self.pos(positions)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


def lora_by_hand_fp16(record):
    """Own low-rank layers in a decoder on the device, float16 autocast with a scaler."""
    model = Decoder().to(device).requires_grad_(False)
    add_lora(model.blocks)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(params, lr=1e-3)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0 ** 12)
    record.watch([model], [optimizer])
    for step in range(5):
        ids = torch.randint(4000, (6, 129)).to(device)
        x, y = ids[:, :-1], ids[:, 1:]
        with torch.autocast("cuda", dtype=torch.float16):
            logits = model(x)
            loss = F.cross_entropy(logits.reshape(-1, 4000), y.reshape(-1))
        record.take("fwd", step, (x, y))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        record.library_tensors = [scaler._scale, scaler._growth_tracker]
        record.take("bwd", step, (x, y))
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(params, 1.0)
        scaler.step(optimizer)
        scaler.update()
        record.take("step", step, (x, y))


def mean_pool(hidden, mask):
    return (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)


def frozen_bert_head(record):
    """A frozen BERT without gradients under a trained pooler and classifier; RMSprop."""
    from transformers import BertConfig, BertModel

    bert = BertModel(BertConfig(vocab_size=4000, hidden_size=256, num_hidden_layers=4, num_attention_heads=8, intermediate_size=1024),
                     add_pooling_layer=False).to(device).eval()
    for p in bert.parameters():
        p.requires_grad = False
    head = nn.Sequential(nn.Linear(256, 1024), nn.Tanh(), nn.Dropout(0.1), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 5)).to(device)
    optimizer = torch.optim.RMSprop(head.parameters(), lr=1e-4)
    record.watch([bert, head], [optimizer])
    for step in range(6):
        ids = torch.randint(1, 4000, (16, 64)).to(device)
        mask, labels = torch.ones_like(ids), torch.randint(5, (16,)).to(device)
        with torch.no_grad(), record.free_choice():
            pooled = mean_pool(bert(input_ids=ids, attention_mask=mask).last_hidden_state, mask)
        batch = (ids, mask, labels, pooled)
        loss = F.cross_entropy(head(pooled), labels)
        record.take("fwd", step, batch)
        loss.backward()
        record.take("bwd", step, batch)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, batch)


# --- precision ----------------------------------------------------------------------------------------------------------------

def bf16_with_masters(record):
    """The model computes in bfloat16; AdamW works on float32 masters, which get the gradients as floats."""
    model = Decoder(layers=3).to(device, torch.bfloat16)
    masters = [p.detach().clone().float() for p in model.parameters()]
    for m in masters:
        m.requires_grad_(True)
    optimizer = torch.optim.AdamW(masters, lr=1e-4)
    record.watch([model], [optimizer])
    record.hold("parameter", lambda: masters)
    record.hold("gradient", lambda: [m.grad for m in masters])
    for step in range(5):
        x, y = (torch.randint(4000, (4, 128)).to(device) for _ in range(2))
        loss = F.cross_entropy(model(x).float().view(-1, 4000), y.view(-1))
        record.take("fwd", step, (x, y))
        loss.backward()
        record.note("gradient", [p.grad for p in model.parameters()])
        for p, m in zip(model.parameters(), masters):
            m.grad = p.grad.float()
            p.grad = None
        record.take("bwd", step, (x, y))
        nn.utils.clip_grad_norm_(masters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for p, m in zip(model.parameters(), masters):
                p.copy_(m)
        record.take("step", step, (x, y))


# --- preferences --------------------------------------------------------------------------------------------------------------

def sequence_logps(logits, labels):
    labels = labels[:, 1:]
    each = torch.gather(logits[:, :-1].log_softmax(-1), 2, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return (each * (labels != -100)).sum(-1)


def dpo_with_disabled_adapter(record):
    """The reference is the same model without its adapter; chosen and rejected answers go through it one after the other."""
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(tiny_llama(), LoraConfig(r=8, target_modules=["q_proj", "v_proj", "gate_proj"])).to(device)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-5)
    record.watch([model], [optimizer])
    loader = zip(DataLoader(Texts(10), batch_size=2), DataLoader(Texts(10), batch_size=2))
    for step, (chosen, rejected) in enumerate(loader):
        chosen, rejected = ({k: v.to(device) for k, v in side.items()} for side in (chosen, rejected))
        forward = lambda side: sequence_logps(model(side["input_ids"], attention_mask=side["attention_mask"]).logits, side["labels"])
        with torch.no_grad(), model.disable_adapter(), record.free_choice():
            ref_chosen, ref_rejected = forward(chosen), forward(rejected)
        policy_chosen, policy_rejected = forward(chosen), forward(rejected)
        logits = (policy_chosen - policy_rejected) - (ref_chosen - ref_rejected)
        loss = -F.logsigmoid(0.1 * logits).mean()
        record.take("fwd", step, (chosen, rejected))
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, (chosen, rejected))
        optimizer.step()
        record.take("step", step, (chosen, rejected))


def reward_model_pairs(record):
    """A sequence classifier of one score learns which answer is better; fused AdamW, warm-up."""
    model = tiny_llama("LlamaForSequenceClassification", num_labels=1).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 3))
    record.watch([model], [optimizer])
    history = []
    for step in range(5):
        chosen, rejected = ({"input_ids": torch.randint(1, 4000, (4, 80)).to(device),
                             "attention_mask": torch.ones(4, 80, dtype=torch.long).to(device)} for _ in range(2))
        good, bad = model(**chosen).logits, model(**rejected).logits
        loss = -F.logsigmoid(good - bad).mean()
        record.take("fwd", step, (chosen, rejected))
        loss.backward()
        record.take("bwd", step, (chosen, rejected))
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        history.append((good > bad).float().mean().item())
        record.take("step", step, (chosen, rejected))


# --- packed sequences ---------------------------------------------------------------------------------------------------------

class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                exp_avg = state["exp_avg"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = exp_avg * beta1 + p.grad * (1 - beta1)
                p.add_(update.sign_(), alpha=-group["lr"])
                exp_avg.mul_(beta2).add_(p.grad, alpha=1 - beta2)


def pack(length=256, rows=3):
    """Rows of several documents each: ids, labels, number of the document, position in it."""
    ids, labels = torch.randint(1, 4000, (rows, length)), torch.randint(1, 4000, (rows, length))
    document, position = torch.zeros(rows, length, dtype=torch.long), torch.zeros(rows, length, dtype=torch.long)
    for row in range(rows):
        start = number = 0
        while start < length:
            end = min(length, start + int(torch.randint(30, 90, ())))
            document[row, start:end], position[row, start:end] = number, torch.arange(end - start)
            labels[row, start:start + 10] = -100
            start, number = end, number + 1
    return ids, labels, document, position


def packed_instructions(record):
    """Documents in a row see only themselves: the mask is made on the device of their numbers; Lion by hand."""
    model = Decoder().to(device)
    optimizer = Lion(model.parameters(), lr=1e-4, weight_decay=0.1)
    record.watch([model], [optimizer])
    for step in range(4):
        ids, labels, document, position = (t.to(device) for t in pack())
        causal = torch.ones(256, 256, dtype=torch.bool, device=device).tril()
        mask = (document[:, :, None] == document[:, None, :]) & causal
        mask = mask[:, None]
        batch = (ids, labels, document, position, mask, causal)
        logits = model(ids, mask, position)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum") / (labels != -100).sum()
        record.take("fwd", step, batch)
        loss.backward()
        record.take("bwd", step, batch)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, batch)


# --- encoder and decoder ------------------------------------------------------------------------------------------------------

class FactoredAdam(torch.optim.Optimizer):
    """Second moments by rows and columns, no first moment, as in the paper of Adafactor."""

    def __init__(self, params, lr=1e-3, decay=0.8):
        super().__init__(params, dict(lr=lr, decay=decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                state, grad = self.state[p], p.grad
                state["t"] = state.get("t", 0) + 1
                beta = 1 - state["t"] ** -group["decay"]
                squared = grad.pow(2).add_(1e-30)
                if grad.dim() == 2:
                    if "row" not in state:
                        state["row"], state["col"] = grad.new_zeros(grad.shape[0]), grad.new_zeros(grad.shape[1])
                    state["row"].mul_(beta).add_(squared.mean(1), alpha=1 - beta)
                    state["col"].mul_(beta).add_(squared.mean(0), alpha=1 - beta)
                    second = torch.outer(state["row"], state["col"]) / state["row"].mean()
                else:
                    if "v" not in state:
                        state["v"] = torch.zeros_like(grad)
                    second = state["v"].mul_(beta).add_(squared, alpha=1 - beta)
                update = grad / (second.sqrt() + 1e-8)
                update.div_((update.norm() / update.numel() ** 0.5).clamp(min=1.0))
                p.add_(update, alpha=-group["lr"])


def t5_summaries(record):
    """T5 with Adafactor by hand; loss with smoothed labels from the logits."""
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(T5Config(vocab_size=4000, d_model=256, d_kv=32, d_ff=1024, num_layers=3, num_heads=8,
                                                decoder_start_token_id=0, pad_token_id=0)).to(device)
    optimizer = FactoredAdam(model.parameters())
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=-100)
    record.watch([model], [optimizer])
    for step in range(5):
        batch = {"input_ids": torch.randint(1, 4000, (4, 128)), "attention_mask": torch.ones(4, 128, dtype=torch.long),
                 "labels": torch.randint(1, 4000, (4, 48))}
        batch = {k: v.to(device) for k, v in batch.items()}
        out = model(**batch)
        loss = criterion(out.logits.view(-1, 4000), batch["labels"].view(-1))
        record.take("fwd", step, batch)
        loss.backward()
        record.take("bwd", step, batch)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, batch)
