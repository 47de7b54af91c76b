"""A training whose names are attacks on whoever shows them: modules, functions, a file, marks, the command's words."""
import ctypes
import os
import sys

import torch
from torch import nn

SETS_FLAG = "window.hurt=1;document.body.dataset.hurt=1"
ATTACKS = [
    f"</script><script>{SETS_FLAG}</script>",
    f"<img src=x onerror='{SETS_FLAG}'>",
    f"\"'><svg onload={SETS_FLAG}>&lt;b&gt;&amp;",
    "\U0001f4a5 \u202egpj.exe\u202c \u2066\u2028\u2029\ufeff",
    "long" * 2500,
    "]]><!--${}{{7*7}}%s%n\\u003c`",
    "new\nline\ttab\x1b[31m\x07",
]
BYTES = b"invalid \xff\xfe\xc0\xaf\xed\xa0\x80 </script>"


def named(function, name, file):
    return type(function)(function.__code__.replace(co_name=name, co_qualname=name, co_filename=file), globals(), name)


def allocate(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def main():
    mark = getattr(ctypes.CDLL(None), "vramtrace_mark", lambda name: None)
    model, kept = nn.Module(), []
    for i, attack in enumerate(ATTACKS):
        model.add_module(attack.replace(".", "\u2024"), nn.Linear(64, 64 * (i + 1)))
        kept.append(named(allocate, attack, f"/home/{attack[:1000]}/train.py")((i + 1) << 20))
        mark(attack.encode())
        mark(BYTES)
    model.cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(5):
        batch = torch.randn(32, 64, device="cuda")
        sum(layer(batch).sum() for layer in model.children()).backward()
        optimizer.step()
        optimizer.zero_grad()
    del kept
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass


# Again, with words that are attacks: what the recording says the command was.
if "again" not in sys.argv:
    words = [sys.executable.encode(), __file__.encode(), b"again", *(attack.encode() for attack in ATTACKS[:4]), BYTES]
    os.execv(words[0], words)
main()
