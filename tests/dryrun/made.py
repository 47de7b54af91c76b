"""What programs of programs.md find in their folder in place of a download: data, and models as a configuration and a tokenizer. Each
function has that folder."""
import json
import pickle
import random
import string
import struct
import zlib


def words(rng, count, of=2000):
    return " ".join(f"w{rng.randrange(of)}" for _ in range(count))


def text(folder):
    lines = [string.printable, *(words(random.Random(1), 12) for _ in range(8000))]
    (folder / "input.txt").write_text("\n".join(lines))


def corpus(folder):
    """As WikiText-2: 33,278 different words."""
    rng = random.Random(1)
    (folder / "words").mkdir()
    for part, lines in (("train", 3000), ("valid", 300), ("test", 300)):
        (folder / "words" / f"{part}.txt").write_text("\n".join(words(rng, 12, 33277) for _ in range(lines)) + "\n")
    with open(folder / "words" / "train.txt", "a") as file:
        file.write(" ".join(f"w{number}" for number in range(33277)) + "\n")


def picture(path, width, height, channels=3, rng=random.Random(1)):  # noqa: B008
    """A PNG of noise; with one channel, of two values."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    noise = rng.randbytes(width * height * channels)
    noise = noise if channels == 3 else bytes(byte & 1 for byte in noise)
    rows = b"".join(b"\0" + noise[row * width * channels:(row + 1) * width * channels] for row in range(height))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def bsds300(folder):
    for part in ("train", "test"):
        for number in range(24):
            picture(folder / "dataset" / "BSDS300" / "images" / part / f"{number}.png", 481, 321)


def classes(folder):
    """A folder of images: train and val, two classes."""
    for part, count in (("train", 200), ("val", 80)):
        for number in range(count):
            picture(folder / "images" / part / f"class{number % 2}" / f"{number}.png", 256, 256)


def pets(folder):
    """Images that have their class in their name."""
    for number in range(160):
        picture(folder / "images" / f"kind{number % 2}_{number}.jpg", 256, 256)


def masks(folder):
    for number in range(24):
        picture(folder / "data" / "imgs" / f"{number}.png", 480, 320)
        picture(folder / "data" / "masks" / f"{number}.png", 480, 320, 1)


def cora(folder):
    rng, nodes = random.Random(1), 2708
    (folder / "cora").mkdir()
    lines = [" ".join([str(node), *(str(int(rng.random() < 0.01)) for _ in range(1433)), f"class{node % 7}"]) for node in range(nodes)]
    (folder / "cora" / "cora.content").write_text("\n".join(lines) + "\n")
    pairs = rng.sample(range(nodes * nodes), 5429)
    (folder / "cora" / "cora.cites").write_text("\n".join(f"{pair // nodes} {pair % nodes}" for pair in pairs) + "\n")


def mingpt(folder):
    """In place of its installation."""
    (folder / "mingpt").symlink_to("../../mingpt")


def llmc_tokens(folder):
    count = 1 << 18
    (folder / "tokens.bin").write_bytes(struct.pack("<256i", 20240520, 1, count, *[0] * 253) + bytes(2 * count))


def speech(folder):
    """What preprocess.py of WaveRNN leaves of recordings: spectrograms and texts, all of one length, as it shuffles without a seed."""
    frames, names = 250, [f"LJ{number:03}" for number in range(96)]
    (folder / "data" / "mel").mkdir(parents=True)
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': (80, {frames}), }}".ljust(117) + "\n"
    for name in names:
        (folder / "data" / "mel" / f"{name}.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", 118) + header.encode() +
                                                             bytes(4 * 80 * frames))
    (folder / "data" / "dataset.pkl").write_bytes(pickle.dumps([(name, frames) for name in names]))
    (folder / "data" / "text_dict.pkl").write_bytes(pickle.dumps(dict.fromkeys(names, "a text of words " * 6)))


# ---- Models: configuration and tokenizer, no weights

SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "cls_token": "[CLS]", "sep_token": "[SEP]",
           "mask_token": "[MASK]"}
CHAT = ("{% for m in messages %}{{ m['role'] }} {{ m['content'] }} </s> {% endfor %}"
        "{% if add_generation_prompt %}assistant {% endif %}")
LLAMA_1B = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 2048,
            "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
            "max_position_embeddings": 131072, "tie_word_embeddings": True, "dtype": "bfloat16"}
QWEN_05B = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 151936, "hidden_size": 896,
            "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
            "tie_word_embeddings": True, "dtype": "bfloat16"}
STABLE = {  # CompVis/stable-diffusion-v1-4
    "model_index.json": {"_class_name": "StableDiffusionPipeline", "scheduler": ["diffusers", "PNDMScheduler"],
                         "text_encoder": ["transformers", "CLIPTextModel"], "tokenizer": ["transformers", "CLIPTokenizer"],
                         "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"],
                         "safety_checker": [None, None], "feature_extractor": [None, None]},
    "scheduler/scheduler_config.json": {"_class_name": "PNDMScheduler", "beta_end": 0.012, "beta_schedule": "scaled_linear",
                                        "beta_start": 0.00085, "num_train_timesteps": 1000, "skip_prk_steps": True, "steps_offset": 1},
    "text_encoder/config.json": {"model_type": "clip_text_model", "architectures": ["CLIPTextModel"], "hidden_size": 768,
                                 "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12, "vocab_size": 49408},
    "tokenizer/vocab.json": {"<|startoftext|>": 49406, "<|endoftext|>": 49407},
    "tokenizer/tokenizer_config.json": {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77, "bos_token": "<|startoftext|>",
                                        "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
    "unet/config.json": {"_class_name": "UNet2DConditionModel", "cross_attention_dim": 768, "attention_head_dim": 8, "sample_size": 64},
    "vae/config.json": {"_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2,
                        "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4, "sample_size": 512},
}


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def model(folder, config):
    """A token for each word; for Qwen, whose class wants so, for each letter."""
    letters = config["model_type"] == "qwen2"
    names = [*SPECIAL.values(), *([*string.printable[:94], "Ġ", "Ċ"] if letters else (f"w{number}" for number in range(2000)))]
    vocabulary = {name: i for i, name in enumerate(names)}
    added = [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, name in enumerate(SPECIAL.values())]
    byte = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    kind = {"pre_tokenizer": byte, "decoder": byte,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []}} if letters else {
            "pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}}
    write(folder, {
        "config.json": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, **config},
        "tokenizer.json": {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                           "post_processor": None, **kind},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 2048, "chat_template": CHAT,
                                  **SPECIAL}})


def gpt2(folder):
    model(folder / "gpt2", {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})


def bert(folder):
    model(folder / "bert-base-cased", {"model_type": "bert", "architectures": ["BertForMaskedLM"]})


def llama(folder):
    model(folder / "llama-1b", LLAMA_1B)


def qwen(folder):
    model(folder / "qwen-0.5b", QWEN_05B)


def smol(folder):
    """HuggingFaceTB/SmolLM-360M, which a program of accelerate names."""
    model(folder / "HuggingFaceTB" / "SmolLM-360M", {**LLAMA_1B, "vocab_size": 49152, "hidden_size": 960, "intermediate_size": 2560,
                                                     "num_hidden_layers": 32, "num_attention_heads": 15, "num_key_value_heads": 5})


def reward_model(folder):
    model(folder / "reward", {**QWEN_05B, "architectures": ["Qwen2ForSequenceClassification"], "num_labels": 1})


def stable_diffusion(folder):
    write(folder / "stable-diffusion", {**STABLE, "tokenizer/merges.txt": "#version: 0.2\n"})


def vae(folder):
    write(folder / "stabilityai" / "sd-vae-ft-ema", {"config.json": STABLE["vae/config.json"]})
