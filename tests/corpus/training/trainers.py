"""The models and trainers that people use, each the real package's: torchvision, transformers, peft, accelerate,
Lightning, and PyTorch's own wrappers. Configurations are small; nothing is downloaded.

The packages are imported where they are used, but imported() brings all at once before the processes are forked.
"""
import contextlib
import os

import torch
from torch import nn
from torch.nn import functional

import models
from nets import STEPS, begin_process_group, end_process_group, small_net, train

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false")


def imported():
    import_torchao()
    with accelerator_known():
        import accelerate  # noqa: F401
        import lightning.pytorch  # noqa: F401
        import peft  # noqa: F401
        import torchvision  # noqa: F401
        from transformers import BertForSequenceClassification, GPT2LMHeadModel, Trainer  # noqa: F401


@contextlib.contextmanager
def accelerator_known():
    """Which transformers asks for as it is imported, and PyTorch 2.6 begins to use then: nothing may touch one before the fork."""
    if not hasattr(torch, "accelerator"):
        yield
        return
    original, torch.accelerator.current_accelerator = torch.accelerator.current_accelerator, lambda *_, **__: torch.device("cuda")
    try:
        yield
    finally:
        torch.accelerator.current_accelerator = original


def import_torchao():
    """Which peft imports, and which asks what the device can as it is imported: nothing may touch one before the fork."""
    import torch._inductor.config
    import torch.utils._triton

    available, torch.cuda.is_available = torch.cuda.is_available, lambda: False
    detection = {"triton_disable_device_detection": True}
    with torch._inductor.config.patch({name: value for name, value in detection.items() if hasattr(torch._inductor.config, name)}):
        try:
            import torchao.prototype.mx_formats  # noqa: F401
        except ImportError:
            pass
    torch.cuda.is_available = available
    torch.utils._triton.has_triton.cache_clear()


def images(rows=4):
    return models.on_device(torch.zeros(rows, 3, 64, 64), torch.zeros(rows, dtype=torch.long))


def resnet50(record):
    import torchvision

    model = torchvision.models.resnet50(num_classes=10).cuda()
    train(record, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), images)


def vgg16(record):
    import torchvision

    model = torchvision.models.vgg16(num_classes=10).cuda()
    train(record, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), images)


def vision_transformer(record):
    import torchvision

    model = torchvision.models.VisionTransformer(64, 16, 3, 4, 192, 384, num_classes=10).cuda()
    train(record, model, torch.optim.AdamW(model.parameters()), images)


def transformer_encoder_amp(record):
    """nn.TransformerEncoder, bfloat16 by autocast, dropout."""
    model = models.Transformer().cuda()

    def forward(tokens):
        with torch.autocast("cuda", torch.bfloat16):
            return model(tokens).flatten(0, 1)

    def batch():
        return models.on_device(torch.zeros(8, 128, dtype=torch.long), torch.zeros(8 * 128, dtype=torch.long))

    train(record, model, torch.optim.AdamW(model.parameters()), batch, forward)


def gpt2_model(**options):
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_layer=3, n_embd=192, n_head=6, vocab_size=2000, n_positions=128, **options))


def bert_model():
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(BertConfig(hidden_size=192, num_hidden_layers=3, num_attention_heads=6,
                                                    intermediate_size=768, vocab_size=2000))


def token_rows(rows=4, length=128):
    return torch.zeros(rows, length, dtype=torch.long)


def train_language_model(record, model, optimizer):
    """Inputs and labels in a dict, and the model makes its own loss."""
    record.watch([model], [optimizer])
    for step in range(STEPS):
        batch = {name: token_rows().to("cuda") for name in ("input_ids", "attention_mask", "labels")}
        loss = model(**batch).loss
        record.take("fwd", step, batch)
        loss.backward()
        record.take("bwd", step, batch)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        record.take("step", step, batch)
        optimizer.zero_grad()


def gpt2(record):
    model = gpt2_model().cuda()
    train_language_model(record, model, torch.optim.AdamW(model.parameters()))


def gpt2_checkpointing(record):
    model = gpt2_model(use_cache=False).cuda()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    train_language_model(record, model, torch.optim.AdamW(model.parameters()))


def gpt2_checkpointing_reentrant(record):
    model = gpt2_model(use_cache=False).cuda()
    model.gradient_checkpointing_enable({"use_reentrant": True})
    train_language_model(record, model, torch.optim.AdamW(model.parameters()))


def peft_lora(record):
    """LoRA as peft does it: its matrices beside frozen weights."""
    import peft

    model = peft.get_peft_model(gpt2_model(), peft.LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True)).cuda()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    train_language_model(record, model, torch.optim.AdamW(trained))


def peft_lora_added_on_device(record):
    """The matrices are added when the model is on the device already, in bfloat16."""
    import peft

    model = gpt2_model().cuda().bfloat16()
    model = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    train_language_model(record, model, torch.optim.AdamW(trained))


class Sentences(torch.utils.data.Dataset):
    def __init__(self, rows, **names):
        self.rows, self.names = rows, names

    def __len__(self):
        return self.rows

    def __getitem__(self, index):
        return {name: torch.zeros(shape, dtype=torch.long) for name, shape in self.names.items()}


def hugging_face_trainer(record, model, names, **options):
    """transformers.Trainer itself; the marks are where it calls us."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Marked(Trainer):
        batch = ()

        def compute_loss(self, model, inputs, *arguments, **options):
            loss = super().compute_loss(model, inputs, *arguments, **options)
            if model.training:
                self.batch = inputs
                record.watch([self.model], [self.optimizer])
                record.take("fwd", self.state.global_step, inputs)
            return loss

        def training_step(self, *arguments, **options):
            loss = super().training_step(*arguments, **options)
            record.take("bwd", self.state.global_step, self.batch)
            return loss

        def evaluate(self, *arguments, **options):
            with record.free_choice():
                return super().evaluate(*arguments, **options)

    class Steps(TrainerCallback):
        def on_optimizer_step(self, *arguments, **options):
            record.take("step", trainer.state.global_step, trainer.batch)

    arguments = TrainingArguments(
        output_dir=f"{record.path}.output", max_steps=STEPS, per_device_train_batch_size=4, report_to=[],
        save_strategy="no", disable_tqdm=True, logging_steps=1, **options)
    trainer = Marked(model=model, args=arguments, train_dataset=Sentences(64, **names),
                     eval_dataset=Sentences(8, **names), callbacks=[Steps()])
    trainer.train()


def bert_trainer(record):
    hugging_face_trainer(record, bert_model(), {"input_ids": 128, "attention_mask": 128, "labels": ()},
                         eval_strategy="steps", eval_steps=1)


def gpt2_trainer(record):
    """bfloat16, accumulation over two batches, gradient checkpointing."""
    hugging_face_trainer(record, gpt2_model(use_cache=False), {"input_ids": 128, "labels": 128}, bf16=True,
                         gradient_accumulation_steps=2, gradient_checkpointing=True)


def lightning_fit(record, **options):
    """lightning.Trainer itself, with validation."""
    import lightning.pytorch as lightning

    class Task(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = small_net()

        def training_step(self, batch, index):
            inputs, targets = self.batch = batch
            self.step = STEPS * self.current_epoch + index
            loss = functional.cross_entropy(self.net(inputs), targets)
            scaler = getattr(self.trainer.precision_plugin, "scaler", None)
            record.watch([self], [self.optimizers().optimizer], [scaler._scale, scaler._growth_tracker] if scaler else [])
            self.log("loss", loss)
            record.take("fwd", self.step, batch)
            return loss

        def validation_step(self, batch, index):
            inputs, targets = batch
            self.log("validation_loss", functional.cross_entropy(self.net(inputs), targets))

        def on_validation_start(self):
            self.choice = record.free_choice()
            self.choice.__enter__()

        def on_validation_end(self):
            self.choice.__exit__(None, None, None)

        def on_after_backward(self):
            record.take("bwd", self.step, self.batch)

        def on_train_batch_end(self, outputs, batch, index):
            record.take("step", self.step, batch)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    rows = torch.utils.data.TensorDataset(torch.zeros(64 * STEPS, 256), torch.zeros(64 * STEPS, dtype=torch.long))
    loader = torch.utils.data.DataLoader(rows, 64)
    trainer = lightning.Trainer(
        accelerator="gpu", devices=1, max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=f"{record.path}.output", **options)
    trainer.fit(Task(), loader, loader)


def lightning_amp(record):
    """float16 with a scaler, clipped."""
    lightning_fit(record, precision="16-mixed", gradient_clip_val=1.0)


def accelerate_loop(record):
    """accelerate's prepare() and accumulate(), bfloat16."""
    import accelerate

    accelerator = accelerate.Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    rows = torch.utils.data.TensorDataset(torch.zeros(64 * 2 * STEPS, 256), torch.zeros(64 * 2 * STEPS, dtype=torch.long))
    model = small_net()
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.AdamW(model.parameters()), torch.utils.data.DataLoader(rows, 64))
    record.watch([model], [optimizer])
    for step, (inputs, targets) in enumerate(loader):
        with accelerator.accumulate(model):
            loss = functional.cross_entropy(model(inputs), targets)
            record.take("fwd", step // 2, (inputs, targets))
            accelerator.backward(loss)
            record.take("bwd", step // 2, (inputs, targets))
            optimizer.step()
            record.take("step", step // 2, (inputs, targets))
            optimizer.zero_grad()


def aot_eager(record):
    """torch.compile without its compiler: forward and backward are traced and run as graphs of operators."""
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 32)).cuda()
    train(record, model, torch.optim.AdamW(model.parameters()), forward=torch.compile(model, backend="aot_eager"))


def distributed_views(record):
    """DistributedDataParallel whose buckets are the gradients."""
    begin_process_group()
    model = small_net().cuda()
    wrapped = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    train(record, model, torch.optim.Adam(model.parameters()), forward=wrapped)
    end_process_group()


def fully_sharded(record):
    """FSDP over one process: parameters are shards, gathered for each use."""
    from torch.distributed.fsdp import fully_shard

    begin_process_group()
    model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)) for _ in range(3))).cuda()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    train(record, model, torch.optim.AdamW(model.parameters()))
    end_process_group()
