"""steps, diff and check against what PyTorch counted and what a layer holds by the sizes of its tensors."""
import concurrent.futures
import json
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, run, vramtrace  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "compare_script.py"
STEPS = 12
WAYS = ["category", "module", "kind", "owner", "line", "stack", "op"]


def train(folder, script, names, **settings):
    """{name: (trace, truth)} of the script's runs."""
    folder.mkdir()
    run([PYTHON, script, folder, *names], folder / "%p.vrt", VRAMTRACE_QUIET="1", PYTHONPATH=str(SCRIPT.parent), **settings)
    return {path.stem: (path.with_suffix(".vrt"), json.loads(path.read_text())) for path in folder.glob("*.json")}


def edited(script, copy):
    """The script as someone may have worked on it: lines above every function, and within one."""
    text = script.read_text().replace("\nimport ctypes\n", "\n# a remark\n\n\nimport ctypes\n")
    text = text.replace("        loss = model(batch)", "        print(end='')\n\n        loss = model(batch)")
    copy.write_text(text)
    return copy


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        looked = pool.submit(train, folder / "looked", SCRIPT, [])
        unlooked = pool.submit(train, folder / "unlooked", SCRIPT, ["three", "four"], VRAMTRACE_INSPECT="0")
        other = pool.submit(train, folder / "edited", edited(SCRIPT, folder / "compare_script.py"), ["three"])
        return {"looked": looked.result(), "unlooked": unlooked.result(), "edited": other.result()}


@pytest.fixture
def traces(runs):
    return runs["looked"]


def as_json(*arguments, check=True):
    return json.loads(vramtrace(*arguments, "--json", check=check).stdout)


def steps_of(trace):
    return [step for step in as_json("steps", trace)["devices"][0]["steps"] if step["step"]]


def diff_of(a, b, *arguments):
    (device,) = as_json("diff", a, b, *arguments)["devices"]
    return device


def row_of(rows, name):
    (row,) = [row for row in rows if row["name"] == name]
    return row


# steps


@pytest.mark.parametrize("name", ["three", "four", "momentum", "uneven", "leaking"])
def test_steps_have_pytorchs_peaks(traces, name):
    trace, truth = traces[name]
    steps = steps_of(trace)
    assert [step["step"] for step in steps] == list(range(1, STEPS + 1))
    assert [step["peak"]["block_bytes"] for step in steps] == [step["peak"] for step in truth["steps"]]
    # the last goes on to the end of the process
    assert [step["end"]["block_bytes"] for step in steps[:-1]] == [step["end"] for step in truth["steps"][:-1]]
    for before, step in zip(steps, steps[1:]):
        assert step["change_bytes"] == step["end"]["used_bytes"] - before["end"]["used_bytes"]
        assert step["t_ns"] == before["t_ns"] + before["duration_ns"]


def test_steps_agree_with_the_report(traces):
    trace, _ = traces["uneven"]
    for step in steps_of(trace)[6:9]:
        view = as_json("report", "--at", f"step:{step['step']}", trace)["devices"][0]["at"]
        assert step["peak"]["event"] == view["event"]
        assert step["peak"]["categories"] == view["categories"]


def test_what_stands_out(traces):
    steps = steps_of(traces["uneven"][0])
    assert [step["step"] for step in steps if "peak" in step["stands_out"]] == [8]
    assert "time" in steps[9]["stands_out"]
    assert steps[9]["duration_ns"] >= 0.4e9
    for name in ("three", "momentum"):
        assert not any("peak" in step["stands_out"] for step in steps_of(traces[name][0]))
    assert "peak +" in vramtrace("steps", traces["uneven"][0]).stdout


def table_rows(text):
    """[(first step, last step, line)] of the text."""
    rows = []
    for line in text.splitlines():
        found = re.match(r"  (\d+)(?:[-–](\d+))? ", line)
        if found:
            rows.append((int(found[1]), int(found[2] or found[1]), line))
    return rows


def test_like_steps_share_a_row(traces):
    """How long each took may part them: a machine has other things to do."""
    for name in ("three", "leaking"):
        rows = table_rows(vramtrace("steps", traces[name][0]).stdout)
        assert [number for first, last, _ in rows for number in range(first, last + 1)] == list(range(1, STEPS + 1))
        assert len(rows) < STEPS
        middle = [line for first, last, line in rows if 3 <= first and last <= STEPS - 1]
        assert all(("+64 KiB" if name == "leaking" else " 0 B ") in line for line in middle)
        assert len(table_rows(vramtrace("steps", "--all", traces[name][0]).stdout)) == STEPS


# diff


@pytest.mark.parametrize("by", WAYS)
def test_no_difference_from_itself(runs, by):
    for traces in runs.values():
        trace, _ = traces["three"]
        assert "no difference" in vramtrace("diff", "--by", by, trace, trace).stdout
        assert not diff_of(trace, trace, "--by", by)["differs"]


def test_no_difference_from_another_run_of_it(traces):
    for moment in ("", "@mark:fwd#2", "@step:3", "@end"):
        text = vramtrace("diff", f"{traces['three'][0]}{moment}", f"{traces['three_again'][0]}{moment}").stdout
        assert "no difference" in text, text


@pytest.mark.parametrize("moment,categories", [("fwd", ["parameter", "optimizer_state", "activation"]),
                                               ("bwd", ["parameter", "optimizer_state", "gradient"])])
@pytest.mark.parametrize("removed", [False, True])
def test_one_layer_more(runs, moment, categories, removed):
    sign = -1 if removed else 1
    for how, traces in runs.items():
        if "four" not in traces:
            continue
        layer = {name: sign * traces["four"][1]["layer"][name] for name in categories}
        names = ["four", "three"] if removed else ["three", "four"]
        device = diff_of(*(f"{traces[name][0]}@mark:{moment}#2" for name in names))
        changes = {row["name"]: row["change_bytes"] for row in device["categories"] if row["name"] != "cached"}
        assert changes == layer, how
        for rows in ("modules", "owners", "lines", "stacks", "ops"):
            assert sum(row["change_bytes"] for row in device[rows]) == sum(layer.values()), (how, rows)
        for side, name in zip("ab", names):
            step = traces[name][1]["steps"][1]
            assert device[side]["block_bytes"] == step["forward" if moment == "fwd" else "backward"]
        if how == "looked":
            row = row_of(device["modules"], "layers.3")
            assert row["categories"] == layer
            assert row["kind"] == ("removed" if removed else "added")
            assert row_of(device["owners"], "layers.3.*")["change_bytes"] == layer["parameter"]
        elif moment == "fwd":  # what modules' calls made; the rest is by line
            row = row_of(device["modules"], "Layer#4")
            assert row["categories"] == {"activation": layer["activation"]}
            assert row["kind"] == ("removed" if removed else "added")
        lines = {}
        for row in device["lines"]:
            assert pathlib.Path(row["file"]).name == "compare_script.py"
            for category, change in row["categories"].items():
                lines.setdefault(row["function"].split(".")[-1], {})[category] = change
        by_line = {"forward": {c: layer[c] for c in ("activation", "gradient") if c in layer},
                   "train": {c: layer[c] for c in ("parameter", "optimizer_state")}}
        assert lines == by_line, how


def test_peaks_by_default(traces):
    device = diff_of(traces["three"][0], traces["four"][0])
    for side, name in zip("ab", ["three", "four"]):
        assert device[side]["block_bytes"] == max(step["peak"] for step in traces[name][1]["steps"])


def test_two_moments_of_one_trace(traces):
    trace, truth = traces["three"]
    device = diff_of(f"{trace}@mark:fwd#3", f"{trace}@mark:bwd#3")
    assert device["a"]["block_bytes"] == truth["steps"][2]["forward"]
    assert device["b"]["block_bytes"] == truth["steps"][2]["backward"]
    gradient = row_of(device["categories"], "gradient")
    assert gradient["kind"] == "added"
    assert gradient["b_bytes"] == device["b"]["categories"]["parameter"]


def test_leak_between_two_steps(traces):
    trace, _ = traces["leaking"]
    (row,) = diff_of(f"{trace}@step:3", f"{trace}@step:9", "--by", "line")["lines"]
    assert row["change_bytes"] == 6 * 65536
    assert row["b_blocks"] - row["a_blocks"] == 6
    assert row["function"] == "train"
    assert "torch.zeros(leak" in SCRIPT.read_text().splitlines()[row["a_line"] - 1]


def test_lines_of_an_edited_file(runs):
    """Functions that moved, and lines within one that moved, are the same lines."""
    before, after = runs["looked"]["three"][0], runs["edited"]["three"][0]
    for moment in ("", "@mark:fwd#2", "@mark:bwd#2"):
        assert "no difference" in vramtrace("diff", "--by", "line", f"{before}{moment}", f"{after}{moment}").stdout
    device = diff_of(f"{after}@mark:bwd#2", f"{runs['looked']['four'][0]}@mark:bwd#2", "--by", "line")
    assert device["lines"]
    assert all(row["kind"] == "grown" and row["a_line"] > row["b_line"] for row in device["lines"])


def test_file_with_an_at_in_its_name(traces, tmp_path):
    odd = tmp_path / "a@step:1.vrt"
    odd.write_bytes(traces["three"][0].read_bytes())
    assert "no difference" in vramtrace("diff", odd, traces["three"][0]).stdout
    assert "mark 'fwd#2'" in vramtrace("diff", f"{odd}@mark:fwd#2", f"{odd}@mark:bwd#2").stdout


# check


def test_peak_to_the_byte(traces):
    trace, truth = traces["three"]
    peak = max(step["peak"] for step in truth["steps"])
    assert vramtrace("check", "--max-peak", peak, trace).stdout == ""
    result = vramtrace("check", "--max-peak", peak - 1, trace, check=False)
    assert result.returncode == 1
    assert "in use at the peak (step 1, " in result.stdout and "1 B over --max-peak" in result.stdout
    assert len(result.stdout.splitlines()) == 1 and result.stderr == ""


def test_cached_and_unknown(traces):
    trace, truth = traces["three"]
    first = truth["steps"][0]
    cached = first["reserved"] - first["peak"]
    assert vramtrace("check", "--max-cached", cached, "--max-unknown", "0%", trace).stdout == ""
    assert vramtrace("check", "--max-cached", cached - 1, trace, check=False).returncode == 1
    part = 100 * cached / first["reserved"]
    assert vramtrace("check", "--max-cached", f"{part + 0.01:.4f}%", trace).stdout == ""
    assert vramtrace("check", "--max-cached", f"{part - 0.01:.4f}%", trace, check=False).returncode == 1


def test_baseline(traces):
    three, again, four, smaller = (traces[name][0] for name in ("three", "three_again", "four", "momentum"))
    assert vramtrace("check", "--baseline", three, "--tolerance", "0", again, smaller).stdout == ""
    result = vramtrace("check", "--baseline", three, again, four, check=False)
    assert result.returncode == 1
    assert all(line.startswith(f"{four}: GPU 0: ") for line in result.stdout.splitlines())
    seen = as_json("check", "--baseline", three, "--tolerance", "2%", four, check=False)["traces"][0]
    over = {check["part"]: check["bytes"] for check in seen["checks"] if not check["passed"]}
    layer = traces["four"][1]["layer"]
    assert over["peak"] == max(step["peak"] for step in traces["four"][1]["steps"])
    assert set(over) >= {"peak", "parameter", "gradient", "optimizer_state"}
    grown = {check["part"]: check["bytes"] - check["limit_bytes"] for check in seen["checks"] if not check["passed"]}
    tolerance = int(0.02 * max(step["peak"] for step in traces["three"][1]["steps"]))
    for category in ("parameter", "gradient", "optimizer_state"):
        assert grown[category] == layer[category] - tolerance


def test_leak(traces):
    leaking, clean = traces["leaking"][0], traces["three"][0]
    assert vramtrace("check", "--max-leak", "0", clean).stdout == ""
    assert vramtrace("check", "--max-leak", "64KiB/step", leaking).stdout == ""
    result = vramtrace("check", "--max-leak", "65535/step", leaking, check=False)
    assert result.returncode == 1
    (line,) = result.stdout.splitlines()
    assert "64 KiB leaked per step" in line and "compare_script.py:" in line
    (seen,) = [check for check in as_json("check", "--max-leak", "0", leaking, check=False)["traces"][0]["checks"]
               if check["what"] == "leak"]
    # a block of each step before the last; the first may pass for a beginning
    assert (STEPS - 2) * 65536 <= seen["bytes"] <= (STEPS - 1) * 65536
