"""One second stream computed a table and keeps its end; its memory does not serve the stream that trains."""
import sys

import torch

from oom_truth import watch

watch()
side = torch.cuda.default_stream() if "remedy" in sys.argv else torch.cuda.Stream()
with torch.cuda.stream(side):
    table = torch.empty(1200 << 20, dtype=torch.uint8, device="cuda")
    del table
    index = torch.empty(40 << 20, dtype=torch.uint8, device="cuda")
net = torch.nn.Linear(4096, 4096, device="cuda")
hidden = torch.empty(900 << 20, dtype=torch.uint8, device="cuda")  # asks
