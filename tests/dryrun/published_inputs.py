"""What the published scripts load by its name on the hub: models by their configurations, noise for images, letters for text."""
import json
import random
import statistics

CHARACTERS = [chr(code) for code in range(33, 127)] + [chr(code) for code in range(256, 418)]  # a token for each byte
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
    "added_tokens": [{"id": len(CHARACTERS) + i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                      "normalized": False, "special": True} for i, token in enumerate(SPECIAL)],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
    "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
              "fuse_unk": False, "byte_fallback": False, "vocab": {token: i for i, token in enumerate(CHARACTERS)}, "merges": []}}
FILES = {
    "black-forest-labs/FLUX.2-klein-base-4B": {
        "model_index.json": {
            "_class_name": "Flux2KleinPipeline", "is_distilled": False, "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "text_encoder": ["transformers", "Qwen3ForCausalLM"], "tokenizer": ["transformers", "Qwen2TokenizerFast"],
            "transformer": ["diffusers", "Flux2Transformer2DModel"], "vae": ["diffusers", "AutoencoderKLFlux2"]},
        "scheduler/scheduler_config.json": {
            "_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 3.0, "use_dynamic_shifting": True},
        "text_encoder/config.json": {
            "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 2560,
            "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "max_position_embeddings": 40960, "rope_theta": 1000000, "tie_word_embeddings": True, "torch_dtype": "bfloat16"},
        "tokenizer/tokenizer.json": TOKENIZER,
        "tokenizer/tokenizer_config.json": {
            "tokenizer_class": "Qwen2Tokenizer", "chat_template": CHAT, "eos_token": SPECIAL[2], "pad_token": SPECIAL[0],
            "model_max_length": 131072},
        "tokenizer/vocab.json": TOKENIZER["model"]["vocab"],
        "tokenizer/merges.txt": "#version: 0.2\n",
        "transformer/config.json": {
            "_class_name": "Flux2Transformer2DModel", "num_layers": 5, "num_single_layers": 20, "num_attention_heads": 24,
            "joint_attention_dim": 7680, "guidance_embeds": False},
        "vae/config.json": {"_class_name": "AutoencoderKLFlux2"}},
    "facebook/dinov2-base": {
        "config.json": {
            "architectures": ["Dinov2Model"], "model_type": "dinov2", "hidden_size": 768, "num_hidden_layers": 12,
            "num_attention_heads": 12, "image_size": 518, "patch_size": 14, "torch_dtype": "float32"},
        "preprocessor_config.json": {
            "image_processor_type": "BitImageProcessor", "crop_size": {"height": 224, "width": 224}, "do_center_crop": True,
            "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225], "resample": 3, "rescale_factor": 0.00392156862745098, "size": {"shortest_edge": 256}}},
    "meta-llama/Llama-3.2-3B": {
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256, "hidden_size": 3072,
            "intermediate_size": 8192, "num_hidden_layers": 28, "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128,
            "max_position_embeddings": 131072, "rope_theta": 500000.0, "rms_norm_eps": 1e-05, "tie_word_embeddings": True,
            "bos_token_id": 128000, "eos_token_id": 128001, "torch_dtype": "bfloat16", "rope_scaling": {
                "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
                "rope_type": "llama3"}},
        "tokenizer.json": TOKENIZER,
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SPECIAL[0], "model_max_length": 131072}}}
IMAGES, IMAGE = "peft-internal-testing/cat-image-dataset", 512

# Of MetaMathQA, as the script cuts and sorts it. Published with each result: how many tokens there were; the mean of their lengths.
# SPREAD (standard deviation by mean) was fitted on two results, docs/results/dryrun-published.md names them; nothing else is.
SAMPLES, MEAN, LONGEST, SPREAD = 20000, 208.9, 768, 0.40
BUCKET = 80  # the script sorts as many by length
DRAWS = 20
ARTICLES, QUESTIONS = 4, 1  # of the data sets that it evaluates with
GSM8K = """---
configs:
- config_name: main
  data_files:
  - split: train
    path: train.jsonl
  - split: test
    path: test.jsonl
---
"""


def write_models(folder):
    """As folders below FOLDER."""
    for model, files in FILES.items():
        for name, content in files.items():
            path = folder / model / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))


def write_images(folder, count):
    rng, folder = random.Random(1), folder / IMAGES / "train"
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        (folder / f"{i:02d}.ppm").write_bytes(b"P6\n%d %d\n255\n" % (IMAGE, IMAGE) + rng.randbytes(3 * IMAGE * IMAGE))


def lengths(spread=SPREAD):
    """Tokens of two buckets, each from long to short: one as all buckets are on average, and one that has the longest sample (what is
    expected of it: the mean of many draws)."""
    rng, shape = random.Random(0), spread ** -2
    whole, longest = [], []
    for _ in range(DRAWS):
        drawn = [min(LONGEST, rng.gammavariate(shape, MEAN / shape)) for _ in range(SAMPLES)]
        buckets = [sorted(drawn[i:i + BUCKET], reverse=True) for i in range(0, SAMPLES, BUCKET)]
        whole += buckets
        longest.append(max(buckets, key=lambda bucket: bucket[0]))
    average, longest = ([round(statistics.fmean(column)) for column in zip(*of)] for of in (whole, longest))
    return [average, longest]


def write_texts(folder, template, buckets):
    """Samples of as many tokens, which are letters, within TEMPLATE; articles and questions to evaluate with."""
    around = len(template.format(query="")) + 1
    samples = [{"type": "", "query": "x", "original_question": "x", "response": "y" * (tokens - around)}
               for bucket in buckets for tokens in bucket]
    question = [{"question": "x" * 200, "answer": "#### 1"}] * QUESTIONS
    for name, rows in {"meta-math/MetaMathQA/train.jsonl": samples, "openai/gsm8k/train.jsonl": question,
                       "openai/gsm8k/test.jsonl": question,
                       "HuggingFaceFW/finewiki/train.jsonl": [{"text": "zz"}] * ARTICLES}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "openai/gsm8k/README.md").write_text(GSM8K)
