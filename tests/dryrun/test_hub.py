"""Models by their names: of weights only the header is fetched, and the user's own cache stays as it is."""
import hashlib
import http.server
import importlib.util
import json
import os
import re
import struct
import threading

import pytest

from dry import python

pytest.importorskip("transformers")
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
          "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 8000,
          "torch_dtype": "bfloat16", "tie_word_embeddings": False}


def shapes():
    h, m, v = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["vocab_size"]
    found = {"model.embed_tokens.weight": (v, h), "lm_head.weight": (v, h), "model.norm.weight": (h,)}
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        found |= {f"{layer}.self_attn.{name}_proj.weight": (h, h) for name in "qkvo"}
        found |= {f"{layer}.mlp.{name}_proj.weight": (m, h) for name in ("gate", "up")} | {f"{layer}.mlp.down_proj.weight": (h, m)}
        found |= {f"{layer}.{name}_layernorm.weight": (h,) for name in ("input", "post_attention")}
    return found


COUNT = sum(shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in shapes().values())


def header():
    told, end = {}, 0
    for name, shape in shapes().items():
        begin, end = end, end + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        told[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(told).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


class Hub(http.server.BaseHTTPRequestHandler):
    """One model. A range within the header of its weights is answered; anything more of them is noted, and refused."""
    asked, weights_asked = [], []
    files = {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": header()}

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self):
        path = self.path.partition("?")[0]
        self.asked.append((self.command, path))
        match = re.fullmatch(r"/some/model/resolve/\w+/(.+)", path)
        body = self.files.get(match[1]) if match else None
        if match and body is None:
            return self.answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit="c" * 40)
        if not match:
            return self.answer(404, b"{}", Content_Type="application/json")
        size = len(body) + (2 * COUNT if match[1].endswith(".safetensors") else 0)
        common = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X_Repo_Commit": "c" * 40, "Accept_Ranges": "bytes"}
        if self.command == "HEAD":
            return self.answer(200, Content_Length=str(size), **common)
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if match[1].endswith(".safetensors") and (not span or int(span[2]) >= len(body)):
            self.weights_asked.append(self.headers.get("Range", "all"))
            return self.answer(403)
        if span:
            return self.answer(206, body[int(span[1]):int(span[2]) + 1], Content_Range=f"bytes {span[1]}-{span[2]}/{size}", **common)
        return self.answer(200, body, **common)

    do_HEAD = do_GET


@pytest.fixture
def hub():
    Hub.asked.clear()
    Hub.weights_asked.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def load(folder, *arguments, options=(), **settings):
    return python(folder, "from_hub.py", *arguments, options=options, HF_HOME=str(folder / "home"), XDG_CACHE_HOME=str(folder / "cache"),
                  HF_HUB_DISABLE_TELEMETRY="1", **settings)


def held(done):
    assert done.status == 0, done.error
    words = done.output.split()
    return int(words[1]), int(words[3])


def test_only_the_header_of_the_weights_is_fetched(hub, tmp_path):
    done = load(tmp_path, "some/model", HF_ENDPOINT=hub)
    allocated, parameters = held(done)
    assert parameters == COUNT and 2 * COUNT <= allocated < 2 * COUNT + (64 << 10)
    assert not Hub.weights_asked and any(how == "GET" and path.endswith("/model.safetensors") for how, path in Hub.asked)
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and not path.is_symlink()]
    assert max(path.stat().st_size for path in kept) > 2 * COUNT > sum(path.stat().st_blocks * 512 for path in kept)
    assert not [path for path in (tmp_path / "home").rglob("*safetensors*")]  # the user's cache
    again = load(tmp_path, "some/model", HF_ENDPOINT=hub, HF_HUB_OFFLINE="1")
    assert held(again) == (allocated, parameters)


def test_what_the_user_has_is_used(hub, tmp_path):
    """A complete model in the user's cache is read there, and nothing is written to it."""
    folder = tmp_path / "home/hub/models--some--model"
    for name in ("blobs", "refs", "snapshots/" + "c" * 40):
        (folder / name).mkdir(parents=True)
    (folder / "refs/main").write_text("c" * 40)
    for name, body in Hub.files.items():
        blob = folder / "blobs" / hashlib.sha256(body).hexdigest()
        with open(blob, "wb") as file:
            file.write(body)
            file.truncate(len(body) + (2 * COUNT if name.endswith(".safetensors") else 0))
        (folder / "snapshots" / ("c" * 40) / name).symlink_to(os.path.relpath(blob, folder / "snapshots" / ("c" * 40)))
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in (tmp_path / "home").rglob("*"))
    done = load(tmp_path, "some/model", HF_ENDPOINT=hub, HF_HUB_OFFLINE="1")
    assert held(done)[1] == COUNT
    assert before == sorted((str(path), path.lstat().st_mtime_ns) for path in (tmp_path / "home").rglob("*"))


def test_random_weights(tmp_path):
    """The same bytes, from a folder that has a configuration alone."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_bytes(Hub.files["config.json"])
    done = load(tmp_path, "./model", options=["--random-weights"], HF_HUB_OFFLINE="1")
    allocated, parameters = held(done)
    assert parameters == COUNT and 2 * COUNT <= allocated < 2 * COUNT + (64 << 10)
    assert "LlamaForCausalLM has random weights: ./model is made from its configuration" in done.error
    assert sorted(os.listdir(tmp_path / "model")) == ["config.json"]


@pytest.mark.skipif(importlib.util.find_spec("diffusers") is None, reason="needs diffusers")
def test_random_weights_of_diffusers(tmp_path):
    (tmp_path / "unet").mkdir()
    config = {"_class_name": "UNet2DModel", "sample_size": 32, "block_out_channels": [64, 128], "down_block_types": ["DownBlock2D"] * 2,
              "up_block_types": ["UpBlock2D"] * 2, "layers_per_block": 1}
    (tmp_path / "unet/config.json").write_text(json.dumps(config))
    done = python(tmp_path, "from_hub_diffusers.py", "./unet", options=["--random-weights"], HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    allocated, parameters = held(done)
    assert parameters > 1e6 and 2 * parameters <= allocated < 2 * parameters + (512 << 8) and "UNet2DModel has random weights" in done.error


def test_a_cache_of_the_programs_own_is_not_filled_with_holes(hub, tmp_path):
    load(tmp_path, "some/model", str(tmp_path / "mine"), HF_ENDPOINT=hub)
    assert not [path for path in (tmp_path / "mine").rglob("*") if path.is_file() and path.stat().st_size > 2 * COUNT]
