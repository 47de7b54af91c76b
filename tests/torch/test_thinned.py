"""Commands on a thinned trace against the same on all its events: twenty programs, each command's text and JSON, equal to the byte in
all that is not listed here. What thinning does to a trace of millions, VRAMTRACE_BUDGET_EVENTS does to one of some thousands."""
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/golden")]
import page_data  # noqa: E402
from helpers import BUILD, ENVIRONMENT, PROGRAM, PYTHON, info, run  # noqa: E402

TORCH = ROOT / "tests/torch"
BROWSER = ROOT / "tests/browser/programs"
LEAKS = ROOT / "tests/corpus/leaks"
# name: (program, what is another way in its text so that it is long enough)
PROGRAMS = {
    "transformer": ((TORCH / "train_script.py", "transformer_amp", "--steps", "30"), {}),
    "resnet50": ((TORCH / "train_script.py", "resnet50", "--steps", "20"), {}),
    "gpt": ((TORCH / "train_script.py", "gpt", "--steps", "30"), {}),
    "gpt_checkpoint": ((TORCH / "train_script.py", "gpt_checkpoint", "--steps", "25"), {}),
    "mlp_adam": ((TORCH / "train_script.py", "mlp_adam", "--steps", "150"), {}),
    "mlp_sgd": ((TORCH / "train_script.py", "mlp_sgd", "--steps", "150"), {}),
    "leak": ((ROOT / "examples/leak.py",), {"steps=20": "steps=200"}),
    "out_of_memory": ((BROWSER / "lengths.py",), {"range(12)": "range(400)", "(64, 512)": "(64, 128 + 16 * _)"}),
    "two_devices": ((BROWSER / "two_devices.py",), {"range(8)": "range(200)"}),
    "expandable": ((BROWSER / "expandable.py",), {"range(8)": "range(200)"}),
    **{name: ((LEAKS / f"{name}.py",), {"range(20)": "range(200)"}) for name in (
        "leak_apply_closures", "leak_cached_by_tensor", "leak_cycle_collected", "leak_cycle_iterator", "leak_exc_info",
        "leak_growing_module_list", "leak_keyed_by_id", "leak_metric_buffer", "leak_metric_states", "clean_weak_cache")},
}
WITHOUT_MEASURING = "\nimport types\nmain(types.SimpleNamespace(step=lambda *_, **__: None, measure=lambda *_, **__: None))\n"
CHAINS, STEPS_EACH, PART = 20, 3, 2  # in so many chains, but each of some steps, as real ones are; above such a part of the events,
# some are read as digests
RECHAIN = BUILD / "tests/unit/rechain"
# What is not promised: (commands, fields of JSON, why). The table of docs/analysis.md says the same.
EXCEPTIONS = [
    ("report leaks oom frag steps diff check info timeline", r"trace\.omitted$", "says that events were not read"),
    ("report", r"\.identities\W", "are checked where every event was read"),
    ("report timeline", r"\.timeline\.", "has only moments in whole chains"),
    ("report oom diff", r"\.temporary_peak_bytes$", "is the most at moments in whole chains"),
    ("report oom", r"\.advice\W", "what a remedy saves is judged by the moments in whole chains"),
    ("report leaks", r"\.leaks_change_bytes$", "memory at the start of a step is compared between the steps in whole chains"),
    ("oom", r"\.causes\W.*\.(what|certain)$", "inputs of earlier steps are those of the steps in whole chains"),
    ("oom", r"\.freed_next\W", "what would be freed next is judged by the steps in whole chains"),
    ("steps", r"\.(peak|end)\.(unseen_bytes|categories\.\w+)$", "blocks of a step between whole chains have no category"),
    ("steps", r"\.(peak|end)\.(event|t_ns)$|\.end\.phase$", "of a step between whole chains, the event before that is kept"),
    ("steps frag", r"\.(first|last|freed|made)_event$", "between whole chains, the nearest event that is kept"),
    ("report", r"\.last_gpu\.", "of the last reading at a moment in a whole chain"),
    ("report leaks", r"\.leaks\[\d+\]\.why$", "how often something was seen is counted in the steps in whole chains"),
    ("info", r"\.total_mismatches$", "the framework's counter is compared at events in whole chains"),
]
# Gradients are zeroed after the forward pass: between whole chains, a step may seem to end within the next one's forward pass.
STEPS_DIFFER = {"leak_metric_buffer"}
COUNTED = re.compile(r"(?<=freed in bulk, )\d+(?= times)|(?<=In )\d+ of the last \d+(?= steps in which it grew)")
# Of texts: the chart, up to the next empty line, the column of temporaries, remedies, and what would be freed next.
CHART = re.compile(r"^ +Time( |$)|^ driver ")
ESTIMATES = re.compile(r"(?ms)^(To lower the peak|Would have been freed next).*?(?=^\S|\Z)")
TOO_BIG = re.compile(r"(?ms)^  (why|observed) +step \d+ is too big.*?(?=^  fix)")
OF_TEXT = {"report": ("chart", "temp. peak", "estimates"), "oom": ("temp. peak", "estimates")}


def vramtrace(command, *arguments, above=None, status=(0,)):
    environment = {**ENVIRONMENT, **({"VRAMTRACE_BUDGET_EVENTS": str(above)} if above else {})}
    result = subprocess.run([PROGRAM, *command.split(), *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode in status, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """{name: (trace, events from which on it is thinned)}"""
    folder = tmp_path_factory.mktemp("thinned")
    jobs = []
    for name, ((script, *arguments), edits) in PROGRAMS.items():
        text = script.read_text()
        for before, after in edits.items():
            assert before in text, name
            text = text.replace(before, after)
        text += WITHOUT_MEASURING if script.parent == LEAKS else ""
        if edits:
            script = folder / f"{name}.py"
            script.write_text(text)
        jobs.append(f"{name}=" + ",".join(map(str, (script, *arguments))))
    run([PYTHON, TORCH / "children.py", folder, *jobs], folder / "%p.vrt", VRAMTRACE_STANDIN_DEVICES="2", VRAMTRACE_QUIET="1",
        VRAMTRACE_STANDIN_MEMORY=str(2 << 30), PYTHONPATH=f"{ROOT}/examples:{ROOT}/tests/corpus")
    made = {}
    for name in PROGRAMS:
        recorded, trace = folder / f"{name}.vrt", folder / f"{name}.chains.vrt"
        events = info(recorded)["trace"]["events"]
        steps = info(recorded)["steps"]
        subprocess.run([RECHAIN, recorded, trace, str(max(events // CHAINS, events // steps * STEPS_EACH))], check=True)
        made[name] = trace, events // PART
    return made


def leaves(item, path=""):
    """{path: value} of all numbers and texts of a document. What holds nothing is listed by its temporaries: here by its name."""
    if isinstance(item, dict):
        return {where: value for name, part in item.items() for where, value in leaves(part, f"{path}.{name}").items()}
    if isinstance(item, list):
        if item and isinstance(item[0], dict) and "temporary_peak_bytes" in item[0]:
            item = sorted(item, key=lambda part: (-part["bytes"], part["name"]))
        return {f"{path}.length": len(item), **{where: value for i, part in enumerate(item)
                                                for where, value in leaves(part, f"{path}[{i}]").items()}}
    return {path: item}


def promised(document, command):
    patterns = [re.compile(pattern) for commands, pattern, _ in EXCEPTIONS if command in commands.split()]
    return {path: value for path, value in leaves(document).items() if not any(pattern.search(path) for pattern in patterns)}


def paragraphs(text, command):
    """Lines of a text, without the paragraph that says what is missing, and what OF_TEXT names."""
    text = re.sub(r"(?m)^Long trace: (.+\n)+\n", "", text)
    text = re.sub(r"(?m)^not read .*\n", "", text)
    text = re.sub(r"(?m)^(✓ no leak in [\d,]+ steps): memory at the start(.+\n)+", r"\1\n", text)  # if all events were read
    text = COUNTED.sub("some", re.sub(r"(?m)(?<=\S)\n {11}(?=\S)", " ", text)) if command in ("report", "leaks") else text
    text = re.sub(r"; [\d,]+ events were not read one by one.*", "", text)
    if "estimates" in OF_TEXT.get(command, ()):
        text = TOO_BIG.sub("", ESTIMATES.sub("", text))
    lines, column, in_chart = [], None, False
    for line in text.splitlines():
        in_chart = "chart" in OF_TEXT.get(command, ()) and bool(line.strip()) and (in_chart or bool(CHART.search(line)))
        if in_chart:
            continue
        if "temp. peak" in OF_TEXT.get(command, ()):
            column = line.index("temp. peak") + len("temp. peak") if "temp. peak" in line else column if line.strip() else None
            line = line if column is None else re.sub(r"\S+( \w+)?$", "", line[:column]) + line[column:]
        lines.append(" ".join(line.split()))
    return lines


def moments(trace):
    """Moments between windows as people ask for them."""
    events = info(trace)["trace"]["events"]
    steps = info(trace)["steps"]
    return [f"step:{steps // 2}", f"event:{events // 3}", f"event:{events * 2 // 3}"]


def pairs(trace, above, command, *arguments, json_too=True, status=(0,)):
    operands = () if command.startswith("diff") else (trace,)
    text = ("--full",) if command.split()[0] in ("report", "leaks", "oom", "frag", "diff") else ()  # a screen has what fits it
    for more in (text, ("--json",)) if json_too else (text,):
        thinned, whole = (vramtrace(command, *more, *arguments, *operands, above=limit, status=status) for limit in (above, None))
        yield more == ("--json",), thinned, whole


def check(trace, above, command, *arguments, **options):
    name = command.split()[0]
    for is_json, thinned, whole in pairs(trace, above, command, *arguments, **options):
        if is_json:
            assert promised(json.loads(thinned), name) == promised(json.loads(whole), name), (command, arguments)
        elif name != "timeline":  # its text is the chart
            assert paragraphs(thinned, name) == paragraphs(whole, name), (command, arguments)


def check_bytes(trace, above, moment):
    """Within a step between inspections, names of gradients, and with them what was asked for, may be known by other steps, which are
    not there: the other bytes are promised, and not more rounding than with all events."""
    for is_json, *both in pairs(trace, above, "report", "--at", moment):
        if is_json:
            told = [[{key: part for key, part in device["at"].items() if isinstance(part, int) or key == "categories"}
                     for device in json.loads(one)["devices"]] for one in both]
            rounding = [[at.pop("rounding_bytes") for at in one] for one in told]
            assert all(few <= many for few, many in zip(*rounding)), moment
            assert told[0] == told[1] and all("categories" in at and at["driver_bytes"] for at in told[0]), moment


@pytest.mark.parametrize("name", PROGRAMS)
def test_thinned_is_equal(name, traces):
    trace, above = traces[name]
    for at in ((), ("--at", moments(trace)[1])):
        shown = json.loads(vramtrace("report --json", *at, trace, above=above))["trace"]
        assert shown["omitted"] > shown["events"] / 10
    for command in ("report", "timeline", "leaks", *(() if name in STEPS_DIFFER else ("steps",)), "frag", "info"):
        check(trace, above, command)
    if name == "out_of_memory":
        assert json.loads(vramtrace("oom --json", trace, above=above))["out_of_memory"]
        check(trace, above, "oom")
    check(trace, above, "check --max-peak 1MiB --max-unknown 1KiB --max-cached 1KiB --max-leak 1KiB", status=(0, 1))
    check(trace, above, "diff", f"{trace}@peak", f"{trace}@end")
    step, *events = moments(trace)
    check(trace, above, "report", "--at", step)
    check(trace, above, "frag", "--at", step)
    check(trace, above, "diff", f"{trace}@{step}", f"{trace}@end")
    for moment in events:
        check_bytes(trace, above, moment)
    for form in ("pprof", "speedscope", "folded"):
        for at in ((), ("--at", moments(trace)[0])):
            files = [trace.parent / f"{name}.{form}.{every}" for every in ("thinned", "whole")]
            for path, limit in zip(files, (above, None)):
                vramtrace(f"export --format {form}", "-o", path, *at, trace, above=limit)
            assert files[0].read_bytes() == files[1].read_bytes()
    counts = [re.sub(r"^.*: [\d,]+ events checked", "", text)
              for text in ("".join(paragraphs(vramtrace("info --verify", trace, above=limit), "info")) for limit in (above, None))]
    assert counts[0] == counts[1] and "0 errors" in counts[0]


def make_page(trace, above):
    path = trace.with_suffix(".html")
    vramtrace("html", "-o", path, trace, above=above)
    return page_data.read(path)[1][0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_page_shows_no_state_that_was_not(name, traces):
    """Each change outside the gaps has the sums that the page of all events has there; inside it has not all."""
    trace, above = traces[name]
    thinned, whole = make_page(trace, above), make_page(trace, None)
    gaps = thinned.head["gaps"]
    assert sum(gaps["omitted"]) == json.loads(vramtrace("info --json", trace, above=above))["trace"]["omitted"]
    assert not whole.head["gaps"]["omitted"] and thinned.head["events"] == whole.head["events"]
    inside = [any(first <= event < end for first, end in zip(gaps["first_event"], gaps["end_event"])) for event in thinned.events]
    assert set(whole.events) >= {event for event, hidden in zip(thinned.events, inside) if not hidden}
    checked = 0
    for device in thinned.head["devices"]:
        index, shown = device["index"], whole.head["devices"][thinned.head["devices"].index(device)]
        for moment in ("peak_change", "end_change"):
            assert thinned.events[device[moment]] == whole.events[shown[moment]] and not inside[device[moment]]
        for change in range(0, len(thinned.events), max(1, len(thinned.events) // 80)):
            own = page_data.sums_at(thinned, change, index)
            full = page_data.sums_at(whole, whole.change_at(thinned.events[change]), index)
            if not inside[change]:
                assert own == full
                checked += 1
    assert checked > 5
    for blob, command in (("report", "report"), ("leaks", "leaks")):
        assert promised(thinned.document(blob), command) == promised(whole.document(blob), command)
    steps, all_steps = thinned.table("steps"), whole.table("steps")
    assert len(steps) == len(all_steps)
    for one, other in zip(steps, all_steps) if name not in STEPS_DIFFER else ():
        for near in ("peak_event", "first_event", "last_event"):
            one.pop(near), other.pop(near)
        assert one == other


def test_the_document_names_the_exceptions():
    text = (ROOT / "docs/analysis.md").read_text()
    for _, _, why in EXCEPTIONS:
        assert why in text


SERVER = """
import contextlib, sys, threading
import torch
from torch import nn
model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(4))).cuda().eval()
turn = threading.Lock() if sys.argv[1] == "in_turn" else contextlib.nullcontext()
def work(number):
    for i in range(2000):
        with torch.inference_mode(), turn:
            model(torch.empty(8 + i * number % 5, 256, device="cuda")).float().softmax(-1).argmax(-1)
threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
"""


@pytest.mark.parametrize("how", ["at_once", "in_turn"])
def test_each_request_counts(how, tmp_path):
    """Digests show some requests of many, and a chain may end in the middle of several. What one needs is the same for all that
    take turns; of those at once it depends on which are seen, since each counts what the others hold meanwhile."""
    run([PYTHON, "-c", SERVER, how], tmp_path / "recorded.vrt")
    subprocess.run([RECHAIN, tmp_path / "recorded.vrt", tmp_path / "chains.vrt", "10000"], check=True)
    parts = [json.loads(vramtrace("report --json", tmp_path / "chains.vrt", above=above)) for above in (1000, None)]
    inference = [part["devices"][0]["inference"] for part in parts]
    assert parts[0]["trace"]["omitted"] > 20000
    assert [part["steps"] for part in parts] == [part["forward_passes"] for part in inference] == [8000, 8000]
    assert min(part["steps"]["bytes"] for part in inference) > 0
    if how == "in_turn":
        assert inference[0]["steps"]["bytes"] == inference[1]["steps"]["bytes"]


HEADED = """
import torch
from torch import nn
model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(4))).cuda().eval()
head = nn.Linear(256, 4096).cuda().eval()
def iterate(rows):
    hidden = model(torch.empty(rows, 256, device="cuda"))
    chosen = torch.zeros(2, 256, device="cuda")
    return head(chosen).argmax(-1)
with torch.inference_mode():
    for i in range(3000):
        iterate(8 + i % 5)
"""


def test_a_head_is_no_pass_of_its_own(tmp_path):
    """A second model in each round: calls that are only counted are passes in the same part as those that are seen."""
    run([PYTHON, "-c", HEADED], tmp_path / "recorded.vrt")
    subprocess.run([RECHAIN, tmp_path / "recorded.vrt", tmp_path / "chains.vrt", "10000"], check=True)
    parts = [json.loads(vramtrace("report --json", tmp_path / "chains.vrt", above=above)) for above in (1000, None)]
    assert parts[0]["trace"]["omitted"] > 20000
    assert [part["steps"] for part in parts] == [part["devices"][0]["inference"]["forward_passes"] for part in parts] == [3000, 3000]


INSPECTED = """
import ctypes
import torch
from torch import nn
look = ctypes.CDLL(None).vramtrace_inspect
model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(8))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(200):
    model(torch.randn(16, 64, device="cuda")).sum().backward()
    if step % 10 == 5:
        look(b"gradients")
    optimizer.step()
    optimizer.zero_grad()
"""


def test_inspections_in_digests(tmp_path):
    """What an inspection saw may have been freed before the digest's end: that it is not there does not mean that it never was."""
    run([PYTHON, "-c", INSPECTED], tmp_path / "recorded.vrt")
    events = info(tmp_path / "recorded.vrt")["trace"]["events"]
    subprocess.run([RECHAIN, tmp_path / "recorded.vrt", tmp_path / "chains.vrt", str(events // 20)], check=True)
    assert len(re.findall("inspections +2[0-9] in", vramtrace("info", tmp_path / "chains.vrt"))) == 1
    check(tmp_path / "chains.vrt", 1, "info")
