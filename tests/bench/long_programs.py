"""Programs that run until they are stopped, for long.py: trainings of equal steps, of varying lengths, and whose graphs overlap; a
language model that generates; a threaded server; live-N: training beside N blocks; moving-N: each step replaces five of them."""
import itertools
import sys
import threading

import torch
from torch import nn

torch.backends.cudnn.enabled = False


def train(length_of, overlap=False, others=0, moving=False):
    kept = [torch.empty(256 + i % 7, device="cuda") for i in range(others)]
    layers = [nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0) for _ in range(4)]
    model = nn.Sequential(nn.Embedding(512, 64), *layers, nn.Linear(64, 512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for i in itertools.count():
        for k in range(5 * i, 5 * i + 5) if moving else ():
            kept[k * 7919 % others] = torch.empty(256 + k % 7, device="cuda")
        tokens = torch.randint(0, 512, (4, length_of(i)), device="cuda")
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        if overlap:  # the gradients of the step before live until here
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not overlap:
            optimizer.zero_grad()


def generate():
    import transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=6, n_head=4, n_embd=128, vocab_size=2000)).cuda().eval()
    while True:
        model.generate(torch.ones(2, 16, dtype=torch.long, device="cuda"), max_new_tokens=40, do_sample=False, eos_token_id=None,
                       pad_token_id=0)


def serve():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(12))).cuda().eval()

    def work(number):
        with torch.inference_mode():
            for i in itertools.count():
                model(torch.empty(8 + i * number % 5, 256, device="cuda")).float().softmax(-1).argmax(-1)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()


kind, _, number = sys.argv[1].partition("-")
{"equal": lambda: train(lambda i: 64), "varying": lambda: train(lambda i: 16 + i * 37 % 97),
 "overlap": lambda: train(lambda i: 64, overlap=True), "live": lambda: train(lambda i: 64, others=int(number)),
 "moving": lambda: train(lambda i: 64, others=int(number), moving=True),
 "generate": generate, "server": serve}[kind]()
