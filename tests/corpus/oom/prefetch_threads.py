"""Each thread of a loader decodes on a stream of its own and keeps its last batch. The model's request is on the default stream."""
import sys
import threading

import torch

from oom_truth import watch

watch()
ready = []


def decode(shared):
    stream = torch.cuda.current_stream() if "remedy" in sys.argv else torch.cuda.Stream()
    with torch.cuda.stream(stream):
        frames = torch.empty(360 << 20, dtype=torch.uint8, device="cuda")
        del frames
        ready.append(torch.empty(30 << 20, dtype=torch.uint8, device="cuda"))


model = torch.empty(500 << 20, dtype=torch.uint8, device="cuda")
for _ in range(4):
    worker = threading.Thread(target=decode, args=(ready,))
    worker.start()
    worker.join()
activations = torch.empty(280 << 20, dtype=torch.uint8, device="cuda")  # asks
