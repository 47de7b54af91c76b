"""Speech: recognition from spectrograms and from samples, translation of speech, synthesis."""
import math

import torch
from torch import nn
from torch.nn import functional as F

dev = torch.device("cuda")


# --- features on the device ---------------------------------------------------------------------------------------------------

class LogMel(nn.Module):
    """Mel energies of a waveform; the window and the filters are buffers."""

    def __init__(self, n_fft=512, hop=160, mels=80):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)
        self.register_buffer("filters", torch.rand(mels, n_fft // 2 + 1))

    @torch.no_grad()
    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        return (self.filters @ torch.view_as_real(spec).square().sum(-1)).clamp_min(1e-5).log()


class ConvRecurrent(nn.Module):
    def __init__(self, mels=80, hidden=256, letters=40):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 32, 3, (2, 2), 1), nn.BatchNorm2d(32), nn.Hardtanh(0, 20, inplace=True),
                                  nn.Conv2d(32, 32, 3, (2, 1), 1), nn.BatchNorm2d(32), nn.Hardtanh(0, 20, inplace=True))
        self.rnn = nn.GRU(32 * mels // 4, hidden, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, letters)

    def forward(self, features):
        x = self.conv(features.unsqueeze(1)).flatten(1, 2).transpose(1, 2)
        return self.out(self.rnn(x)[0]).log_softmax(-1)


def ctc_from_spectrograms(record):
    """Waveforms become mel energies on the device, masked in time and frequency; a bidirectional GRU learns by CTC."""
    features, model = LogMel().to(dev), ConvRecurrent().to(dev)
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    record.watch([features, model], [optimizer])
    for step in range(4):
        wave, letters = torch.randn(4, 16000).to(dev), torch.randint(1, 40, (4, 12)).to(dev)
        with record.free_choice():
            mel = features(wave)
        mel[:, 20:30] = 0
        mel[:, :, 40:50] = 0
        log_probs = model(mel).transpose(0, 1)
        lengths = torch.full((4,), log_probs.shape[0], dtype=torch.long)
        loss = ctc(log_probs, letters, lengths, torch.full((4,), 12, dtype=torch.long))
        record.take("fwd", step, (wave, letters, mel))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        record.take("bwd", step, (wave, letters, mel))
        optimizer.step()
        record.take("step", step, (wave, letters, mel))


# --- transformers -------------------------------------------------------------------------------------------------------------

def wav2vec2_letters(record):
    """Wav2Vec2 with a frozen convolutional front, CTC in float32, two learning rates."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    model = Wav2Vec2ForCTC(Wav2Vec2Config(
        vocab_size=40, hidden_size=192, num_hidden_layers=4, num_attention_heads=6, intermediate_size=768, conv_dim=(96,) * 7,
        num_conv_pos_embeddings=32, num_conv_pos_embedding_groups=4, mask_time_prob=0.1, mask_time_length=4,
        pad_token_id=0)).to(dev)
    model.freeze_feature_encoder()
    head = [p for n, p in model.named_parameters() if n.startswith("lm_head")]
    rest = [p for n, p in model.named_parameters() if not n.startswith("lm_head") and p.requires_grad]
    optimizer = torch.optim.AdamW([{"params": head, "lr": 1e-3}, {"params": rest, "lr": 1e-4}], weight_decay=0.005)
    record.watch([model], [optimizer])
    model.train()
    for step in range(4):
        batch = {"input_values": torch.randn(4, 12000).to(dev), "labels": torch.randint(1, 40, (4, 8)).to(dev)}
        log_probs = model(batch["input_values"]).logits.log_softmax(-1, dtype=torch.float32).transpose(0, 1)
        loss = F.ctc_loss(log_probs, batch["labels"], torch.full((4,), len(log_probs)), torch.full((4,), 8), zero_infinity=True)
        record.take("fwd", step, batch)
        loss.backward()
        record.take("bwd", step, batch)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, batch)


def whisper_finetune(record):
    """Whisper in float16 autocast with checkpointed blocks and a scaler; the encoder is frozen."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    model = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=4000, num_mel_bins=80, d_model=192, encoder_layers=3, decoder_layers=3, encoder_attention_heads=6,
        decoder_attention_heads=6, encoder_ffn_dim=768, decoder_ffn_dim=768, max_source_positions=200, max_target_positions=64,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, use_cache=False)).to(dev)
    model.freeze_encoder()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5)
    scaler = torch.amp.GradScaler("cuda")
    record.watch([model], [optimizer])
    model.train()
    for step in range(4):
        mel, labels = torch.randn(4, 80, 400).to(dev), torch.randint(3, 4000, (4, 48)).to(dev)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(input_features=mel, labels=labels).loss
        record.take("fwd", step, (mel, labels))
        scaler.scale(loss).backward()
        record.library_tensors = [scaler._scale, scaler._growth_tracker]
        record.take("bwd", step, (mel, labels))
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        record.take("step", step, (mel, labels))


# --- synthesis ----------------------------------------------------------------------------------------------------------------

class Positions(nn.Module):
    def __init__(self, d, length=512):
        super().__init__()
        angle = torch.arange(length)[:, None] * torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        self.register_buffer("table", torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[None])

    def forward(self, x):
        return x + self.table[:, :x.shape[1]]


class Synthesizer(nn.Module):
    """Letters to mel frames with known durations, after FastSpeech."""

    def __init__(self, letters=60, d=192, mels=80, speakers=16):
        super().__init__()
        layer = lambda: nn.TransformerEncoderLayer(d, 4, 4 * d, dropout=0.1, batch_first=True)
        self.embed, self.speaker, self.positions = nn.Embedding(letters, d), nn.Embedding(speakers, d), Positions(d)
        self.encoder = nn.TransformerEncoder(layer(), 3, enable_nested_tensor=False)
        self.decoder = nn.TransformerEncoder(layer(), 3, enable_nested_tensor=False)
        self.duration = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 1))
        self.mel = nn.Linear(d, mels)
        self.postnet = nn.Sequential(nn.Conv1d(mels, 256, 5, padding=2), nn.BatchNorm1d(256), nn.Tanh(),
                                     nn.Conv1d(256, 256, 5, padding=2), nn.BatchNorm1d(256), nn.Tanh(), nn.Conv1d(256, mels, 5, padding=2))

    def forward(self, letters, speaker, frames_of):
        h = self.encoder(self.positions(self.embed(letters)) + self.speaker(speaker)[:, None])
        duration = self.duration(h).squeeze(-1)
        h = torch.gather(h, 1, frames_of[:, :, None].expand(-1, -1, h.shape[-1]))
        mel = self.mel(self.decoder(self.positions(h)))
        return mel, mel + self.postnet(mel.transpose(1, 2)).transpose(1, 2), duration


def mel_synthesis(record):
    """Three losses; Adam with Noam's schedule; batches of different lengths."""
    model = Synthesizer().to(dev)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    noam = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 192 ** -0.5 * min((s + 1) ** -0.5, (s + 1) * 4000 ** -1.5))
    record.watch([model], [optimizer])
    for step in range(5):
        letters, each = 30 + 4 * step, 4
        batch = {"letters": torch.randint(60, (8, letters)), "speaker": torch.randint(16, (8,)), "mel": torch.randn(8, letters * each, 80),
                 "frames_of": torch.arange(letters).repeat_interleave(each).expand(8, -1).contiguous(),
                 "durations": torch.full((8, letters), float(each)), "mask": torch.ones(8, letters * each, 1)}
        batch = {k: v.to(dev) for k, v in batch.items()}
        before, after, duration = model(batch["letters"], batch["speaker"], batch["frames_of"])
        mel_loss = sum(((x - batch["mel"]).abs() * batch["mask"]).sum() / batch["mask"].sum() for x in (before, after))
        loss = mel_loss + F.mse_loss(duration, torch.log1p(batch["durations"]))
        record.take("fwd", step, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        record.take("bwd", step, batch)
        optimizer.step()
        noam.step()
        record.take("step", step, batch)
