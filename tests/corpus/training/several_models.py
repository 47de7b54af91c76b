"""Several models in one process: policies with their references and rewards, frozen encoders, one trial after another."""
import copy
import gc

import torch
from torch import nn
from torch.nn import functional

import models
from nets import STEPS

WORDS, WIDTH = 800, 160


class Decoder(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True, norm_first=True)
        self.trunk = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, tokens):
        return self.trunk(self.embed(tokens))


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder, self.lm_head = Decoder(), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        return self.lm_head(self.decoder(tokens))


class Scalar(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder, self.score = Decoder(), nn.Linear(WIDTH, 1)

    def forward(self, tokens):
        return self.score(self.decoder(tokens)).squeeze(-1)


def logprobs(logits, tokens):
    return torch.gather(logits.log_softmax(-1), 2, tokens[..., None]).squeeze(-1)


# ---- Reinforcement learning from feedback ----


class Rollouts:
    """What one round of play leaves for several passes of training."""

    def __init__(self, **tensors):
        self.__dict__.update(tensors)

    def batches(self, rows):
        for start in range(0, len(self.tokens), rows):
            yield Rollouts(**{name: value[start : start + rows] for name, value in self.__dict__.items()})


class PPO:
    def __init__(self, record):
        self.record = record
        self.policy, self.value = Policy().cuda(), Scalar().cuda()
        self.reference = copy.deepcopy(self.policy).requires_grad_(False).eval()
        self.reward = Scalar().cuda().requires_grad_(False).eval()
        self.actor = torch.optim.AdamW(self.policy.parameters(), lr=1e-5)
        self.critic = torch.optim.AdamW(self.value.parameters(), lr=1e-5)

    @torch.no_grad()
    def play(self, prompts, length=4):
        tokens = prompts
        for _ in range(length):
            following = self.policy(tokens)[:, -1].argmax(-1, keepdim=True).clamp(0, WORDS - 1)
            tokens = torch.cat([tokens, following], 1)
        old = logprobs(self.policy(tokens), tokens)
        kept = logprobs(self.reference(tokens), tokens)
        rewards = self.reward(tokens) - 0.1 * (old - kept)
        values = self.value(tokens)
        return Rollouts(tokens=tokens, old=old, values=values, returns=rewards, advantages=rewards - values)

    def learn(self, batch):
        ratio = (logprobs(self.policy(batch.tokens), batch.tokens) - batch.old).exp()
        loss = -torch.min(ratio * batch.advantages, ratio.clamp(0.8, 1.2) * batch.advantages).mean()
        value_loss = functional.mse_loss(self.value(batch.tokens), batch.returns)
        return loss, value_loss


def four_models_of_one_size(record):
    """PPO with policy, reference, reward and value of the same size."""
    ppo = PPO(record)
    record.watch([ppo.policy, ppo.value, ppo.reference, ppo.reward], [ppo.actor, ppo.critic])
    step = 0
    for _ in range(2):
        (prompts,) = models.on_device(torch.zeros(16, 28, dtype=torch.long))
        with record.free_choice():
            rollouts = ppo.play(prompts)
        held = (prompts, vars(rollouts))
        for batch in rollouts.batches(8):
            loss, value_loss = ppo.learn(batch)
            record.take("fwd", step, held)
            ppo.actor.zero_grad()
            ppo.critic.zero_grad()
            (loss + value_loss).backward()
            record.take("bwd", step, held)
            ppo.actor.step()
            ppo.critic.step()
            record.take("step", step, held)
            step += 1


class Chat:
    """Actor-critic by its parts: what was said is collected in a list of dicts, and shuffled for several epochs."""

    def __init__(self):
        self.models = {name: kind().to("cuda") for name, kind in
                       (("actor", Policy), ("reference", Policy), ("judge", Scalar), ("critic", Scalar))}
        for name in ("reference", "judge"):
            self.models[name].eval().requires_grad_(False)
        trained = [*self.models["actor"].parameters(), *self.models["critic"].parameters()]
        self.optimizer = torch.optim.Adam(trained, lr=1e-5)

    @torch.no_grad()
    def say(self, tokens, length=3):
        start, chances = tokens.shape[1], []
        for _ in range(length):
            spread = self.models["actor"](tokens)[:, -1].log_softmax(-1)
            following = spread.argmax(-1, keepdim=True).clamp(0, WORDS - 1)
            chances.append(spread.gather(1, following))
            tokens = torch.cat([tokens, following], dim=1)
        return tokens, torch.cat(chances, 1), start

    @torch.no_grad()
    def experience(self, prompts):
        tokens, chances, start = self.say(prompts)
        away = logprobs(self.models["reference"](tokens), tokens)[:, start:]
        values = self.models["critic"](tokens)[:, start:]
        rewards = -0.05 * (chances - away)
        rewards[:, -1] += self.models["judge"](tokens)[:, -1]
        advantages, last = torch.zeros_like(rewards), 0
        for at in reversed(range(rewards.shape[1])):
            following = values[:, at + 1] if at + 1 < rewards.shape[1] else 0
            last = rewards[:, at] + following - values[:, at] + 0.95 * last
            advantages[:, at] = last
        return {"tokens": tokens, "chances": chances, "advantages": advantages, "returns": advantages + values}

    def losses(self, batch):
        taken = batch["chances"].shape[1]
        found = logprobs(self.models["actor"](batch["tokens"]), batch["tokens"])[:, -taken:]
        ratio = (found - batch["chances"]).exp()
        gain = torch.min(ratio * batch["advantages"], ratio.clamp(0.8, 1.2) * batch["advantages"])
        return functional.mse_loss(self.models["critic"](batch["tokens"])[:, -taken:], batch["returns"]) - gain.mean()


def collected_experience(record):
    """Four models of one size; rollouts of several prompts make one data set, from which minibatches are picked by index."""
    chat = Chat()
    record.watch(chat.models.values(), [chat.optimizer])
    step = 0
    for _ in range(2):
        with record.free_choice():
            parts = [chat.experience(torch.zeros(12, 40, dtype=torch.long).to("cuda")) for _ in range(2)]
            data = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        del parts
        for chosen in torch.arange(24).cuda().split(12):
            batch = {name: values[chosen] for name, values in data.items()}
            loss = chat.losses(batch)
            record.take("fwd", step, (data, batch, chosen))
            loss.backward()
            record.take("bwd", step, (data, batch, chosen))
            nn.utils.clip_grad_norm_(chat.models["actor"].parameters(), 1.0)
            chat.optimizer.step()
            chat.optimizer.zero_grad()
            record.take("step", step, (data, batch, chosen))
            step += 1


def preference_pairs(record):
    """DPO: a policy in bfloat16 autocast and a frozen reference, chosen and rejected answers in one batch."""
    policy = Policy().cuda()
    reference = Policy().cuda().eval()
    reference.load_state_dict(policy.state_dict())
    for parameter in reference.parameters():
        parameter.requires_grad = False
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
    record.watch([policy, reference], [optimizer])
    for step in range(STEPS):
        chosen, rejected = models.on_device(torch.zeros(4, 32, dtype=torch.long), torch.ones(4, 32, dtype=torch.long))
        both = torch.cat([chosen, rejected])
        with torch.autocast("cuda", torch.bfloat16):
            with torch.no_grad(), record.free_choice():
                wanted = logprobs(reference(both).float(), both).sum(1)
            got = logprobs(policy(both).float(), both).sum(1)
        good, bad = (got - wanted).chunk(2)
        loss = -functional.logsigmoid(0.1 * (good - bad)).mean()
        batch = (chosen, rejected, both)
        record.take("fwd", step, batch)
        loss.backward()
        record.take("bwd", step, batch)
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, batch)


class Prompted:
    """Group-relative rewards: answers are sampled with a cache, then scored, then learnt from in parts."""

    def __init__(self):
        import peft
        from transformers import GPT2Config, GPT2LMHeadModel

        base = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=128, n_head=4, vocab_size=WORDS, n_positions=64))
        config = peft.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)
        self.model = peft.get_peft_model(base, config).cuda()
        self.optimizer = torch.optim.AdamW([tensor for tensor in self.model.parameters() if tensor.requires_grad])

    @torch.no_grad()
    def sample(self, tokens, length=6):
        cache, last = None, tokens
        for _ in range(length):
            output = self.model(last, past_key_values=cache, use_cache=True)
            cache, last = output.past_key_values, output.logits[:, -1:].argmax(-1).clamp(0, WORDS - 1)
            tokens = torch.cat([tokens, last], 1)
        return tokens

    def logprobs(self, tokens):
        return logprobs(self.model(tokens, use_cache=False).logits, tokens)


def group_relative_policy(record):
    """GRPO with LoRA: the reference is the same model with its adapters off."""
    prompted = Prompted()
    record.watch([prompted.model], [prompted.optimizer])
    for step in range(STEPS):
        (prompts,) = models.on_device(torch.zeros(8, 16, dtype=torch.long))
        with record.free_choice():
            tokens = prompted.sample(prompts)
            with torch.no_grad(), prompted.model.disable_adapter():
                reference = prompted.logprobs(tokens)
        rewards = (tokens.float().mean(1, keepdim=True) - tokens.float().mean()) / WORDS
        got = prompted.logprobs(tokens)
        drift = (reference - got).exp() - (reference - got) - 1
        loss = -((got - got.detach()).exp() * rewards - 0.04 * drift).mean()
        held = (prompts, tokens, reference, rewards)
        record.take("fwd", step, held)
        loss.backward()
        record.take("bwd", step, held)
        prompted.optimizer.step()
        prompted.optimizer.zero_grad()
        record.take("step", step, held)


# ---- Diffusion with frozen encoders ----


class ImageCoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.SiLU(), nn.Conv2d(64, 128, 4, 2, 1), nn.GroupNorm(8, 128),
                                 nn.SiLU(), nn.Conv2d(128, 8, 3, 1, 1))

    def encode(self, images):
        mean, spread = self.net(images).chunk(2, 1)
        return mean + torch.randn_like(mean) * spread.exp()


class Denoiser(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.time, self.text = nn.Linear(1, width), nn.Linear(WIDTH, width)
        self.first, self.down = nn.Conv2d(4, width, 3, 1, 1), nn.Conv2d(width, 2 * width, 4, 2, 1)
        self.middle = nn.Sequential(nn.GroupNorm(8, 2 * width), nn.SiLU(), nn.Conv2d(2 * width, 2 * width, 3, 1, 1))
        self.up, self.last = nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.Conv2d(2 * width, 4, 3, 1, 1)

    def forward(self, noisy, when, words):
        skip = self.first(noisy) + (self.time(when) + self.text(words.mean(1)))[..., None, None]
        hidden = self.down(skip)
        hidden = self.up(hidden + self.middle(hidden))
        return self.last(torch.cat([functional.silu(hidden), skip], 1))


def latent_denoiser(record):
    """A denoiser learns beside a text encoder and an image encoder that are frozen, in half precision, and its average."""
    text, coder, net = Decoder().cuda().half(), ImageCoder().cuda().half(), Denoiser().cuda()
    for frozen in (text, coder):
        frozen.requires_grad_(False)
        frozen.eval()
    average = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    record.watch([net, text, coder, average], [optimizer])
    schedule = torch.linspace(0.99, 0.01, 1000, device="cuda")
    for step in range(STEPS):
        images, tokens = models.on_device(torch.randn(4, 3, 64, 64), torch.zeros(4, 16, dtype=torch.long))
        with torch.no_grad():
            latents, words = coder.encode(images.half()).float(), text(tokens).float()
        noise, when = torch.randn_like(latents), torch.randint(0, 1000, (4,), device="cuda")
        kept = schedule[when.clamp(0, 999)].view(-1, 1, 1, 1)
        noisy = kept.sqrt() * latents + (1 - kept).sqrt() * noise
        held = (images, tokens, latents, words, noise, when, noisy, kept)
        loss = functional.mse_loss(net(noisy, when.float()[:, None] / 1000, words), noise)
        record.take("fwd", step, held)
        loss.backward()
        record.take("bwd", step, held)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            for mean, parameter in zip(average.parameters(), net.parameters()):
                mean.lerp_(parameter, 0.01)
        record.take("step", step, held)


def diffusers_unet(record):
    """diffusers' UNet with LoRA-free fine-tuning, its VAE and scheduler, transformers' CLIP text encoder."""
    from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    unet = UNet2DConditionModel(
        sample_size=8, layers_per_block=1, block_out_channels=(32, 64), norm_num_groups=8, cross_attention_dim=64,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8).cuda()
    vae = AutoencoderKL(block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2, norm_num_groups=8,
                        up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4).to("cuda", torch.float16)
    text = CLIPTextModel(CLIPTextConfig(vocab_size=1000, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                        num_attention_heads=4, max_position_embeddings=20)).to("cuda", torch.float16)
    vae.requires_grad_(False)
    text.requires_grad_(False)
    scheduler = DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-5)
    record.watch([unet, vae, text], [optimizer])
    for step in range(STEPS):
        pixels, tokens = models.on_device(torch.randn(4, 3, 16, 16), torch.zeros(4, 16, dtype=torch.long))
        latents = vae.encode(pixels.half()).latent_dist.sample().float() * vae.config.scaling_factor
        noise, times = torch.randn_like(latents), torch.randint(0, 100, (4,)).to("cuda")
        noisy = scheduler.add_noise(latents, noise, times)
        states = text(tokens)[0].float()
        held = (pixels, tokens, latents, noise, times, noisy, states)
        loss = functional.mse_loss(unet(noisy, times, states).sample, noise)
        record.take("fwd", step, held)
        loss.backward()
        record.take("bwd", step, held)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, held)


def latent_sampling(record):
    """A denoiser makes images from noise, with guidance, and its decoder turns them to pixels: no training."""
    text, net = Decoder().cuda().half().eval(), Denoiser().cuda().half().eval()
    decoder = nn.Sequential(nn.ConvTranspose2d(4, 64, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1)).cuda().half()
    record.watch([net, text, decoder])
    for step in range(2):
        (tokens,) = models.on_device(torch.zeros(2, 16, dtype=torch.long))
        with torch.no_grad(), record.free_choice():
            words = text(tokens)
            words = torch.cat([torch.zeros_like(words), words])
            latents = torch.randn(2, 4, 32, 32, device="cuda", dtype=torch.float16)
            for time in torch.linspace(1, 0, 5).tolist():
                when = torch.full((4, 1), time, device="cuda", dtype=torch.float16)
                plain, guided = net(torch.cat([latents] * 2), when, words).chunk(2)
                latents = latents - 0.1 * (plain + 7.5 * (guided - plain))
            images = decoder(latents)
            record.take("sampled", step, (tokens,))
    del images


# ---- One model after another ----


def build(width, depth):
    layers = [nn.Linear(256, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 32))


class Trial:
    def __init__(self, width, rate, optimizer):
        self.model = build(width, 2).cuda()
        self.optimizer = optimizer(self.model.parameters(), lr=rate)

    def run(self, record, number, steps=STEPS):
        for step in range(steps):
            inputs, targets = models.on_device(torch.randn(128, 256), torch.zeros(128, dtype=torch.long))
            loss = functional.cross_entropy(self.model(inputs), targets)
            record.take("fwd", number * steps + step, (inputs, targets))
            self.optimizer.zero_grad()
            loss.backward()
            record.take("bwd", number * steps + step, (inputs, targets))
            self.optimizer.step()
            record.take("step", number * steps + step, (inputs, targets))
        return loss.item()


def search(record, keep):
    """KEEP: trials that are over stay in a list."""
    over, results = [], {}
    settings = [(512, 0.1, torch.optim.SGD), (384, 1e-3, torch.optim.AdamW), (512, 1e-3, torch.optim.AdamW)]
    for number, (width, rate, optimizer) in enumerate(settings):
        trial = Trial(width, rate, optimizer)
        record.watch([trial.model] + [past.model for past in over], [trial.optimizer] + [past.optimizer for past in over])
        results[width, rate] = trial.run(record, number)
        if keep:
            over.append(trial)
        del trial
        gc.collect()
    return results


def hyper_parameter_search(record):
    """Three trials, one after another; each model goes before the next one comes."""
    search(record, False)


def trials_kept(record):
    """The same, and all models and optimizers stay."""
    search(record, True)


def fitting_batch(record):
    """For each setting the batch is halved until a step fits: the failed try leaves its model in place."""
    room = torch.cuda.get_device_properties(0).total_memory
    for number, (width, rate) in enumerate(((320, 0.1), (448, 0.03), (384, 0.01))):
        model = build(width, 3).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
        record.watch([model], [optimizer])
        rows, step = 512, 0
        while step < 2:
            try:
                inputs, targets = models.on_device(torch.randn(rows, 256), torch.zeros(rows, dtype=torch.long))
                loss = functional.cross_entropy(model(inputs), targets)
                record.take("fwd", 2 * number + step, (inputs, targets))
                if rows > 128:
                    torch.empty(room, dtype=torch.uint8, device="cuda")
                loss.backward()
                record.take("bwd", 2 * number + step, (inputs, targets))
            except torch.cuda.OutOfMemoryError:
                loss = None
                rows //= 2
                torch.cuda.empty_cache()
                continue
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            record.take("step", 2 * number + step, (inputs, targets))
            step += 1


def cross_validation(record):
    """Folds whose models all exist from the start and train in turn; the data is on the device as a whole."""
    data, labels = models.on_device(torch.randn(600, 256), torch.zeros(600, dtype=torch.long))
    folds = [build(256, 2).cuda() for _ in range(3)]
    optimizers = [torch.optim.Adam(model.parameters()) for model in folds]
    record.watch(folds, optimizers)
    step = 0
    for number, (model, optimizer) in enumerate(zip(folds, optimizers)):
        held_out = torch.zeros(600, dtype=torch.bool)
        held_out[number * 200 : (number + 1) * 200] = True
        inputs, targets = data[~held_out], labels[~held_out]
        held = (data, labels, inputs, targets)
        for _ in range(2):
            model.zero_grad()
            loss = functional.cross_entropy(model(inputs), targets)
            record.take("fwd", step, held)
            loss.backward()
            record.take("bwd", step, held)
            optimizer.step()
            record.take("step", step, held)
            step += 1


def unfrozen_later(record):
    """The head is trained first, then a new optimizer trains the whole model, in bfloat16 autocast."""
    body, head = build(384, 2).cuda().requires_grad_(False), nn.Linear(32, 32).cuda()
    record.watch([body, head])
    step = 0
    for rate, parts in ((1e-3, [head]), (1e-4, [body, head])):
        for part in parts:
            part.requires_grad_(True)
        optimizer = torch.optim.AdamW([tensor for part in parts for tensor in part.parameters()], lr=rate)
        record.watch([body, head], [optimizer])
        for _ in range(2):
            inputs, targets = models.on_device(torch.randn(128, 256), torch.zeros(128, dtype=torch.long))
            with torch.autocast("cuda", torch.bfloat16):
                loss = functional.cross_entropy(head(body(inputs)), targets)
            record.take("fwd", step, (inputs, targets))
            loss.backward()
            record.take("bwd", step, (inputs, targets))
            optimizer.step()
            optimizer.zero_grad()
            record.take("step", step, (inputs, targets))
            step += 1


def ensemble_in_turn(record):
    """Members of an ensemble, each with an optimizer, train on the same batch in every step; then they vote."""
    members = nn.ModuleList(build(256, 1) for _ in range(3)).cuda()
    optimizers = [torch.optim.SGD(member.parameters(), 0.1, momentum=0.9) for member in members]
    record.watch([members], optimizers)
    for step in range(STEPS):
        inputs, targets = models.on_device(torch.randn(128, 256), torch.zeros(128, dtype=torch.long))
        for member, optimizer in zip(members, optimizers):
            optimizer.zero_grad()
            functional.cross_entropy(member(inputs), targets).backward()
            optimizer.step()
        record.take("step", step, (inputs, targets))
        with torch.no_grad(), record.free_choice():
            votes = torch.stack([member(inputs).softmax(-1) for member in members]).mean(0)
        record.take("votes", step, (inputs, targets))
        del votes
