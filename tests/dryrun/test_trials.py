"""dryrun --try, --advise and --fit: a change from outside saves what the same edit by hand saves, to the byte, by PyTorch's counters."""
import json
import re
import subprocess

import pytest

import trials
from dry import PROGRAMS, PYTHON, dry
from helpers import ENVIRONMENT, LONG, PROGRAM, RUN, run

SETS = ("no_grad=evaluate,checkpoint=blocks.*,bf16", "no_grad=evaluate,foreach=off,need_weights=off,zero_grad=early,batch=8")
FEW = ("no_grad", "need_weights", "inplace", "zero_grad", "foreach")  # edits of which the findings need not speak


def test_changes_equal_edits(tmp_path):
    for changes, (trial, hand) in trials.compare(tmp_path, SETS[:2 if LONG else 1]).items():
        assert trial == hand, changes


def test_advice_is_tried_until_it_fits(tmp_path):
    told = tmp_path / "told.json"
    done = dry(tmp_path, [PYTHON, PROGRAMS / "trials.py", *FEW], "--gpu-memory", "880MiB", "--advise", "--json", told)
    found = {trial["changes"]: trial for trial in json.loads(told.read_text())["trials"]}
    assert not found[""]["fits"] and found[""]["needed_bytes"] > found[""]["total_bytes"]
    best = [name for name, trial in found.items() if trial["best"]]
    assert best and best[0] and found[best[0]]["fits"], done.error
    answer = done.error[done.error.index(f"✓ fits with {best[0]}: "):].splitlines()
    assert len(answer) <= 12, "what has no row is named"
    assert all(name in done.error[done.error.index(answer[0]):] for name in found), done.error


def test_the_batch_of_an_argument_is_tried(tmp_path):
    """Where no DataLoader is made; the evaluation's is left alone."""
    (tmp_path / "one.py").write_text("import sys, torch\nfor size in (1, int(sys.argv[-1]) << 18):\n  torch.ones(size, device='cuda')\n")
    told = tmp_path / "told.json"
    command = [PYTHON, tmp_path / "one.py", "--eval-batch-size", "2", "--batch-size", "800"]
    done = dry(tmp_path, command, "--gpu-memory", "1GiB", "--advise", "--json", told)
    assert "✓ fits with arg:batch-size=400: " in done.error, done.error
    assert "batch=/2 (nothing to change: no DataLoader was made)" in done.error
    first, *_, last = json.loads(told.read_text())["trials"]
    assert first["peak_used_bytes"] - last["peak_used_bytes"] == 400 << 20 and "costs: " in done.error


def test_the_largest_batch_that_fits(tmp_path):
    done = dry(tmp_path, [PYTHON, PROGRAMS / "trials.py", "no_grad"], "--gpu-memory", "1GiB", "--fit", "batch")
    assert done.status == 0, done.error
    size = int(re.search(r"✓ batch=(\d+) is the largest that fits: ", done.error)[1])
    for batch, verdict in ((size, True), (size + 1, False)):
        by_hand = dry(tmp_path, [PYTHON, PROGRAMS / "trials.py", "no_grad", f"batch={batch}"], "--gpu-memory", "1GiB")
        assert (by_hand.status == 0) == verdict, by_hand.error
    obstacle = re.search(rf"^  batch={size + 1}: \S+ \S+ needed in step \d+, \w+, (\S+) MiB free; activations ", done.error, re.M)
    assert obstacle[1] == f"{float(re.search('of which ([0-9.]+) MiB is free', by_hand.error)[1]):g}", done.error


@pytest.mark.parametrize("options, words", [
    (["--try", "chekpoint=a"], ["no change 'chekpoint'", "did you mean checkpoint"]),
    (["--try", "foreach"], ["'foreach' is not a change: foreach=off"]),
    (["--try", "batch=0"], ["'batch=0' is not a change"]),
    (["--try", "arg:x"], ["'arg:x' is not a change"]),
    (["--fit", ""], ["--fit needs a name"])])
def test_wrong_changes_are_refused(tmp_path, options, words):
    done = dry(tmp_path, [], *options)
    assert done.status == 2 and all(word in done.error for word in words), done.error


def test_what_finds_nothing_to_change_says_so(tmp_path):
    script = tmp_path / "one.py"
    script.write_text("import torch\nclass Net(torch.nn.Module):\n  def forward(self, x): return self.parts[0](x)\nnet = Net()\n"
                      "net.parts = torch.nn.ModuleList([torch.nn.Linear(9, 9)])\nnet.cuda()(torch.ones(9, device='cuda'))\nprint('end')\n")
    told = tmp_path / "told.json"
    done = dry(tmp_path, [PYTHON, script], "--json", told, "--try", "foreach=off,checkpoint=parts", "--try", "env:A=b")
    first, second, third = json.loads(told.read_text())["trials"]
    assert third["note"] == "" and second["note"] == (
        "foreach: nothing to change; checkpoint: nothing to change: parts is a ModuleList, which has no forward()")
    assert first["needed_bytes"] == second["needed_bytes"] and done.output == "end\n"


def test_like_a_recorded_run(tmp_path):
    """Recorded without values and to its end; the command, the GPU and the allocator's settings come from the trace."""
    recorded = tmp_path / "recorded.vrt"
    ran = run([PYTHON, PROGRAMS / "trials.py", "batch=32"], trace=recorded, VRAMTRACE_STANDIN_GPU="l40s",
              PYTORCH_ALLOC_CONF="expandable_segments:True")
    done = dry(tmp_path, [], "--like", recorded)
    assert done.status == 0 and done.gpu == "NVIDIA L40S", done.error
    assert done.output == ran.stdout, "allocated and reserved"
    told = re.search(r"recorded: (\S+ \S+) in use at its peak; here (\S+ \S+) \(([+-][\d.]+) %\)", done.error)
    assert told and abs(float(told[3])) <= 1, done.error


def test_like_leaves_its_files_here(tmp_path):
    """The command runs in the recorded folder, by the path that it had there."""
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "there" / "one.py").write_text("import os, torch\ntorch.ones(1 << 20, device='cuda')\nprint(os.getcwd())\n")
    ran = subprocess.run([*RUN, PROGRAM, "run", "-o", tmp_path / "recorded.vrt", PYTHON, "one.py"], cwd=tmp_path / "there",
                         env=ENVIRONMENT, capture_output=True, text=True, check=True)
    done = subprocess.run([PROGRAM, "dryrun", "--like", "../recorded.vrt", "--try", "env:A=b", "--json", "told.json"],
                          cwd=tmp_path / "here", env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == ran.stdout == f"{tmp_path / 'there'}\n", done.stderr
    assert (tmp_path / "here" / "told.json").exists() and len(list((tmp_path / "here").glob("*.vrt"))) == 1
    assert [file.name for file in (tmp_path / "there").iterdir()] == ["one.py"]


def test_changes_for_a_job_that_ran_out_of_memory(tmp_path):
    """`oom --try` is a dry run of the rank that fell first; its peak is that of PyTorch's counters in both runs."""
    (tmp_path / "one.py").write_text(
        "import sys, torch\nx = []\ntry:\n    for _ in range(int(sys.argv[2])):\n        x.append(torch.empty(1 << 28, device='cuda'))\n"
        "finally:\n    print(torch.cuda.max_memory_allocated())\n")
    (tmp_path / "job").mkdir()
    for rank, number in enumerate((1, 9)):
        ran = run([PYTHON, tmp_path / "one.py", "--n", str(number)], trace=tmp_path / "job" / f"rank{rank}.vrt", check=False,
                  RANK=str(rank), WORLD_SIZE="1", VRAMTRACE_STANDIN_GPU="a10g", VRAMTRACE_STANDIN_MEMORY="4GiB")
    done = subprocess.run([PROGRAM, "oom", "job", "--try", "arg:n=2", "--try", "arg:n=3"], cwd=tmp_path, env=ENVIRONMENT,
                          capture_output=True, text=True)
    assert "recorded: 3 GiB in use at its peak, when it ran out of memory; here 3 GiB (+0.0 %)" in done.stderr, done.stderr
    assert ran.stdout == done.stdout.splitlines(True)[0] == f"{3 << 30}\n"
    assert "fits with arg:n=2" in done.stderr and done.returncode == 0
    wrong = subprocess.run([PROGRAM, "oom", "job", "--json", "--advise"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert wrong.returncode == 2 and "--advise has no --json: vramtrace dryrun --like" in wrong.stderr
    wrong = subprocess.run([PROGRAM, "oom", "job", "--at", "1s", "--try", "bf16"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True,
                           text=True)
    assert wrong.returncode == 2 and "--try plays the whole program again: it has no --at" in wrong.stderr


def test_like_a_run_without_memory(tmp_path):
    run([PYTHON, "-c", "import torch; torch.cuda.mem_get_info()"], trace=tmp_path / "x.vrt")
    done = dry(tmp_path, [], "--like", tmp_path / "x.vrt")
    assert done.status == 2 and "no GPU memory was recorded there" in done.error


def test_the_output_of_a_trial_that_fails_is_kept(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "half.py").write_text("""import torch
batch = next(iter(torch.utils.data.DataLoader(torch.zeros(64, 1000), batch_size=32)))
print("batch of", len(batch.cuda()))
assert len(batch) == 32, "made for batches of 32\"""")
    done = dry(tmp_path, [PYTHON, "half.py"], "--try", "batch=/2", several=True)
    assert done.status == 0 and "batch=/2: AssertionError: made for batches of 32" in done.error, done.error
    kept = tmp_path / "x" / "batch=_2"
    assert (kept / "output.txt").read_text().startswith("batch of 16\nTraceback") and len(list(kept.glob("*.vrt"))) == 1


def test_a_program_that_fails_is_not_tried(tmp_path):
    (tmp_path / "one.py").write_text("import torch\ntorch.ones(9, device='cuda')\nraise SystemExit(7)\n")
    done = dry(tmp_path, [PYTHON, tmp_path / "one.py"], "--try", "foreach=off")
    assert done.status == 7 and "as it is, the program failed: nothing was tried" in done.error and "run 2" not in done.error


def test_changes_of_ranks(tmp_path):
    told, script = tmp_path / "told.json", tmp_path / "one.py"
    script.write_text("import torch\nnet = torch.nn.Linear(99, 99).cuda()\ntorch.optim.AdamW(net.parameters())\n")
    done = dry(tmp_path, [PYTHON, script], "--world", "2", "--rank", "1", "--try", "foreach=off", "--json", told)
    first, second = json.loads(told.read_text())["trials"]
    assert second["changed"] == 1 and second["note"] == "", done.error
    assert list((tmp_path / "x" / "foreach=off").glob("*.vrt")), "traces of each run are kept in a folder"


TWO_MODELS = """
import sys, torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Checkpointed(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)

def make():
    return nn.Sequential(*[nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(4)]).cuda()

class Half(nn.Module):  # never called itself
    def __init__(self):
        super().__init__()
        self.layers = make()

class Trainer:
    def __init__(self):
        self.critic, self.maker, self.half = make(), make(), Half()
trainer = Trainer()
for name in sys.argv[1:]:
    model = getattr(trainer, name).layers if name == "half" else getattr(trainer, name)
    for i, layer in enumerate(model):
        model[i] = Checkpointed(layer)
def train():  # a batch lives until the next one is there
    for _ in range(2):
        batch = torch.randn(4096, 256, device="cuda")
        x = trainer.critic(trainer.maker(batch))
        for layer in trainer.half.layers:
            x = layer(x)
        x.mean().backward()
        del x
train()
trainer.critic = None
print(torch.cuda.memory_allocated(), file=open("left", "a"))
print(torch.cuda.max_memory_allocated())
"""


@pytest.mark.skipif(not LONG, reason="a minute")
def test_modules_are_named_after_their_model_where_there_are_several(tmp_path):
    (tmp_path / "two.py").write_text(TWO_MODELS)
    told, tries = tmp_path / "told.json", ("critic.*", "half.layers.*")
    options = [word for name in tries for word in ("--try", f"checkpoint={name}")]
    done = dry(tmp_path, [PYTHON, tmp_path / "two.py"], "--json", told, *options)
    peaks = [trial["peak_used_bytes"] for trial in json.loads(told.read_text())["trials"]]
    left = [int(line) for line in (tmp_path / "left").read_text().split()]
    assert len(left) == 3 and max(left) - min(left) <= 1 << 20, "a model that is changed dies as it would"
    by_hand = [int(dry(tmp_path, [PYTHON, tmp_path / "two.py", *names]).output) for names in ((), ("critic",), ("half",))]
    assert peaks == by_hand and peaks[0] > max(peaks[1:]), done.error


WITH_CACHES = """
import sys, torch, transformers
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=3, n_embd=128, n_head=4, vocab_size=512)).cuda()
if sys.argv[1:]:
    model.gradient_checkpointing_enable({"use_reentrant": False})
ids = torch.zeros(8, 256, dtype=torch.long, device="cuda")
for _ in range(2):
    model(input_ids=ids, labels=ids).loss.backward()
print(torch.cuda.max_memory_allocated())
"""


def test_models_that_make_caches_while_they_train(tmp_path):
    """transformers' own switch tells the model, too, which then makes no cache."""
    pytest.importorskip("transformers")
    (tmp_path / "one.py").write_text(WITH_CACHES)
    told = tmp_path / "told.json"
    done = dry(tmp_path, [PYTHON, tmp_path / "one.py"], "--json", told, "--try", "checkpoint=transformer.h.*")
    first, second = json.loads(told.read_text())["trials"]
    assert not second["failed"], done.error
    by_hand = [int(dry(tmp_path, [PYTHON, tmp_path / "one.py", *words]).output) for words in ((), ("edit",))]
    assert [first["peak_used_bytes"], second["peak_used_bytes"]] == by_hand and by_hand[1] < by_hand[0], done.error
    made = subprocess.run([PROGRAM, "html", "--trials", told, tmp_path / "x.vrt"], env=ENVIRONMENT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    page = json.loads(re.search(r'"trials":(\[.*?\])', (tmp_path / "x.html").read_text())[1])
    assert [(trial["changes"], trial["bytes"]) for trial in page] == list(zip(("", "checkpoint=transformer.h.*"), by_hand))
