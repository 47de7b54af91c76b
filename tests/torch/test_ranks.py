"""Eight ranks on two devices, launched by the real torchrun over gloo: the merged report against each rank's own counters."""
import json
import pathlib
import re
import socket
import statistics
import struct
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PROGRAM, PYTHON, RUN, run, vramtrace  # noqa: E402

pytestmark = pytest.mark.skipif(not RUN, reason="eight ranks share stand-in devices")
SCRIPT = pathlib.Path(__file__).resolve().parent / "ranks_script.py"
CONTEXT = 300 << 20  # of the stand-in


def launch(folder, layout, *options, ranks=8, inside=False, check=True, **settings):
    """`vramtrace run torchrun SCRIPT`, or `torchrun --no-python vramtrace run python SCRIPT`. What the ranks counted."""
    record = [PROGRAM, "run", "--quiet", "-o", folder]
    torchrun = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks]
    command = [*torchrun, "--no-python", *record, PYTHON] if inside else [*record, *torchrun]
    run([*command, SCRIPT, layout, folder, *options], preload=False, check=check, VRAMTRACE_STANDIN_DEVICES="2",
        OMP_NUM_THREADS="1", VRAMTRACE_STANDIN_SHARED=str(folder / "shared"), **settings)
    counted = [json.loads(path.read_text()) for path in sorted(folder.glob("rank*.json"))]
    assert not check or len(counted) == ranks
    return counted


def merged(folder, command="report"):
    return json.loads(vramtrace(command, "--json", folder).stdout)


def check_counters(told, counted):
    """To the byte, of each rank and of each card."""
    assert [process["rank"] for process in told["processes"]] == [truth["rank"] for truth in counted]
    for process, truth in zip(told["processes"], counted):
        (device,) = process["devices"]
        assert process["pid"] == truth["pid"] and process["complete"] and process["dropped"] == 0
        assert device["index"] == truth["device"] == told["gpus"][device["gpu"]]["number"]
        assert device["peak"]["block_bytes"] == truth["allocated_peak"]
        assert device["reserved_peak_bytes"] == truth["reserved_peak"]
        assert device["end"]["segment_bytes"] == truth["reserved"]
    for card in told["gpus"]:
        mine = {process: told["processes"][process] for process in (holder["process"] for holder in card["processes"])}
        used = {truth["card_used"] for truth in counted if truth["device"] == card["number"]}
        assert card["known_by_uuid"] and len(mine) == len(counted) // 2
        assert {holder["process"]: holder["bytes"] for holder in card["processes"]} == \
            {number: counted[number]["reserved_peak"] for number in mine}
        assert {card["most_bytes"]} == used and card["context_bytes"] % CONTEXT == 0


def only_group(told, layout):
    (run_told,) = told["runs"]
    assert run_told["launcher"] == "torchrun" and run_told["missing_ranks"] == [] and run_told["layout"] == layout
    (group,) = run_told["groups"]
    return group


def line_of(text):
    return next(number for number, line in enumerate(SCRIPT.read_text().splitlines(), 1) if text in line)


def test_ddp_with_three_that_differ(tmp_path):
    counted = launch(tmp_path, "ddp", "--odd", 3, "--keep", 5, "--second", 0)
    told = merged(tmp_path)
    check_counters(told, counted)
    group = only_group(told, "data_parallel")
    assert "8 parameters have the same names and shapes on each rank" in group["basis"] and "rank 0 has 32 more" in group["basis"]
    by_process = {odd["process"]: odd for odd in group["outliers"]}
    large, keeping, two_models = (by_process.pop(process) for process in (3, 5, 0))
    assert not by_process
    # Its own model's modules differ in nobody's name, and hold no more; the second one's hold what its parameters have.
    names = [module["name"] for module in two_models["modules"] if module["difference_bytes"] > 1 << 20]
    assert names and all(name.startswith("teacher.") for name in names)
    assert two_models["lines"][0]["line"] == line_of("teacher = Model(range(8))")
    assert two_models["lines"][0]["bytes"] == 8 * (2 * 256 * 1024 + 1024 + 256) * 4
    # What only one rank has names of is in no module of any: what is kept is outside.
    assert keeping["modules"][0]["name"] == "" and keeping["modules"][0]["difference_bytes"] > 20 << 20
    assert all(module["difference_bytes"] < 1 << 20 for module in keeping["modules"][1:])
    assert large["bytes"] - large["usual_bytes"] == large["difference_bytes"] > 20 << 20
    assert large["lines"][0]["line"] == line_of("self.down(torch.relu(self.up(inputs)))")
    assert keeping["lines"][0]["line"] == line_of("kept.append(torch.ones(") and keeping["lines"][0]["usual_bytes"] == 0
    # The peak is in the fourth step, and what the fourth one keeps comes after it.
    assert 3 * (8 << 20) <= keeping["lines"][0]["bytes"] == sum(counted[5]["kept_bytes"][:3])
    assert keeping["difference_bytes"] == counted[5]["allocated_peak"] - statistics.median(
        truth["allocated_peak"] for truth in counted if truth["rank"] != 5)
    # The allocator cuts nothing under 1 MiB off a block that it gives again: other lines differ by such rests.
    assert abs(keeping["difference_bytes"] - keeping["lines"][0]["bytes"]) < 1 << 20
    # What the card had in use when a rank came is no context of its own.
    differs = vramtrace("diff", told["processes"][0]["file"], told["processes"][7]["file"]).stdout
    assert not re.search(r"^  context  ", differs, re.MULTILINE)
    text = " ".join(vramtrace("report", "--full", tmp_path).stdout.split())
    assert f"ranks_script.py:{line_of('kept.append(torch.ones(')} step" in text
    assert "Rank 3 peaks at" in text and "Why rank 3 differs" in text
    check_clocks(tmp_path, told, tmp_path / "away")


def check_clocks(folder, told, away):
    """As if the upper half of the ranks had been on a host whose clock is 40 s ahead."""
    away.mkdir()
    for process in told["processes"]:
        data = bytearray(pathlib.Path(process["file"]).read_bytes())
        (start,) = struct.unpack_from("<Q", data, 64)
        if process["rank"] >= 4:
            struct.pack_into("<Q", data, 64, start + 40_000_000_000)
            struct.pack_into("<64s", data, 80, b"away")
        (away / f"{process['rank']}.vrt").write_bytes(data)
    corrected = merged(away)
    ahead = {node["host"]: (node["clock_ahead_ns"], node["clock_within_ns"]) for node in corrected["nodes"]}.pop("away")
    assert abs(ahead[0] - 40_000_000_000) <= ahead[1]
    for process, truth in zip(corrected["processes"], told["processes"]):
        assert abs(process["start_ns"] - truth["start_ns"]) <= ahead[1]
    assert "away's was" in corrected["timeline"]["clock"]


def test_fsdp(tmp_path):
    counted = launch(tmp_path, "fsdp", inside=True)
    told = merged(tmp_path)
    check_counters(told, counted)
    group = only_group(told, "sharded_data_parallel")
    assert group["processes"] == list(range(8)) and group["outliers"] == [] and "32 of 32 parameters are shards" in group["basis"]


def test_tensor_parallel(tmp_path):
    counted = launch(tmp_path, "tensor", ranks=4)
    told = merged(tmp_path)
    check_counters(told, counted)
    assert "256x256 of 256x1024" in only_group(told, "tensor_parallel")["basis"]


def test_pipeline(tmp_path):
    counted = launch(tmp_path, "pipeline")
    told = merged(tmp_path)
    check_counters(told, counted)
    (run_told,) = told["runs"]
    assert run_told["layout"] == "pipeline"
    assert [(group["processes"], group["modules"]) for group in run_told["groups"]] == [([rank], f"layers.{rank}") for rank in range(8)]


def test_pipelining(tmp_path):
    """torch.distributed.pipelining; the stages are known by the names of their parameters."""
    counted = launch(tmp_path, "pipelining", ranks=2)
    told = merged(tmp_path)
    check_counters(told, counted)
    (run_told,) = told["runs"]
    assert run_told["layout"] == "pipeline"
    for group, truth in zip(run_told["groups"], counted):
        depths = sorted({int(name.split(".")[1]) for name in truth["names"]})
        assert (group["processes"], group["modules"]) == ([truth["rank"]], f"layers.{depths[0]}–{depths[-1]}")


def test_accelerate(tmp_path):
    """The real `accelerate launch`."""
    run([PROGRAM, "run", "--quiet", "-o", tmp_path, PYTHON, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", 2,
         "--num_machines", 1, "--mixed_precision", "no", "--dynamo_backend", "no", SCRIPT, "ddp", tmp_path], preload=False,
        VRAMTRACE_STANDIN_DEVICES="2", OMP_NUM_THREADS="1", VRAMTRACE_STANDIN_SHARED=str(tmp_path / "shared"))
    told = merged(tmp_path)
    check_counters(told, [counted for _, counted in sorted(counters(tmp_path, "rank").items())])
    (run_told,) = told["runs"]
    assert (run_told["launcher"], run_told["world_size"], run_told["missing_ranks"]) == ("accelerate", 2, [])


def counters(folder, name):
    return {truth["rank"]: truth for truth in (json.loads(path.read_text()) for path in folder.glob(f"{name}*.json"))}


def check_moment(moment, truth):
    assert (moment["block_bytes"], moment["segment_bytes"]) == (truth["allocated"], truth["reserved"])


def test_the_first_that_runs_out(tmp_path):
    """Rank 2 fills the card of ranks 0 and 2 while all stand still; then rank 0 asks for more, too late."""
    launch(tmp_path, "ddp", "--fill", 2, "--late", 0, ranks=4, check=False, VRAMTRACE_STANDIN_MEMORY="8GiB")
    told = merged(tmp_path, "oom")
    fell, still = counters(tmp_path, "fell"), counters(tmp_path, "still")
    first, *others = told["failures"]
    failed = first["failed_request"]
    assert first["process"] == 2 and failed["requested_bytes"] == 1 << 30 and failed["line"] == line_of("fills the card")
    (late,) = [fall for fall in others if fall["failed_request"]]
    assert (late["process"], late["same_gpu"], late["failed_request"]["line"]) == (0, True, line_of("is too late"))
    assert sorted(fall["process"] for fall in others) == [0, 1, 3]
    for fall in (first, late):  # on the common clock
        assert fell[fall["process"]]["asked_ns"] <= told["start_realtime_ns"] + fall["t_ns"] <= fell[fall["process"]]["refused_ns"]
    # What the others had at that moment, by their own counters; and how the first differs from them.
    assert [neighbour["process"] for neighbour in told["neighbours"]] == [0, 1, 3]
    for neighbour in told["neighbours"]:
        (device,) = neighbour["devices"]
        check_moment(device["at"], still[neighbour["process"]])
    (differs,) = told["first_differs"]
    usual = sorted(still[rank]["allocated"] for rank in (0, 1, 3))[1]
    assert (differs["bytes"], differs["usual_bytes"]) == (fell[2]["allocated"], usual)
    assert fell[2]["kept"] == fell[2]["allocated"] - still[2]["allocated"]
    # The allocator cuts nothing under 1 MiB off a block that it gives again: ranks with the same work differ by such rests.
    assert differs["difference_bytes"] == fell[2]["allocated"] - usual
    assert differs["usual_peak_bytes"] == sorted(still[rank]["allocated_peak"] for rank in (0, 1, 3))[1]
    for part, key in (("lines", line_of("fills the card")), ("modules", "hoard")):
        (most, *_) = differs[part]
        assert most["line" if part == "lines" else "name"] == key
        assert (most["bytes"], most["usual_bytes"]) == (fell[2]["kept"], 0)
    most, *rests = [category["difference_bytes"] for category in differs["categories"]]
    assert abs(most - fell[2]["kept"]) < 1 << 20 and all(abs(rest) < 1 << 20 for rest in rests)
    if len({truth["allocated"] for truth in still.values()}) == 1:  # no rests
        assert most + sum(rests) == fell[2]["kept"]
    # The card at that moment, by the driver.
    (card,) = told["first_gpu"]
    assert {holder["process"]: holder["bytes"] for holder in card["processes"]} == {2: fell[2]["reserved"], 0: still[0]["reserved"]}
    assert (card["bytes"], card["total_bytes"] - card["bytes"]) == (fell[2]["card_used"], fell[2]["card_free"])
    assert card["context_bytes"] % CONTEXT == 0
    text = " ".join(vramtrace("oom", tmp_path).stdout.split())
    assert "first in rank 2" in text and "At that moment ranks 0–1, 3, with the same work, held" in text
    assert "rank 0 also ran out of memory, later, on the same GPU." in text
    # Its own page: its own context, and not what the other ranks had when it came.
    assert "CUDA context 300 MiB" in text
    report = json.loads(vramtrace("oom", "--json", told["processes"][2]["file"]).stdout)["last"]["gpu"]
    assert report["categories"]["context"] == CONTEXT and report["driver_bytes"] == fell[2]["reserved"] + CONTEXT
    assert report["other_bytes"] == fell[2]["card_used"] - fell[2]["reserved"] - CONTEXT
    killed = [process["rank"] for process in told["processes"] if not process["complete"]]
    if killed:
        assert "Incomplete traces: rank" in vramtrace("report", "--full", tmp_path).stdout
    assert "vramtrace oom" in " ".join(vramtrace("report", "--full", tmp_path).stdout.split())


def test_a_rank_that_no_inspection_saw(tmp_path):
    """It is no stage of a pipeline, and its classes are no modules that the others lack."""
    record = ("test $RANK = 1 && export VRAMTRACE_INSPECT=0; "
              f"exec {PROGRAM} run --quiet -o {tmp_path} {PYTHON} {SCRIPT} ddp {tmp_path} --keep 1")
    run([PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 3, "--no-python", "sh", "-c", record], preload=False,
        VRAMTRACE_STANDIN_DEVICES="2", OMP_NUM_THREADS="1", VRAMTRACE_STANDIN_SHARED=str(tmp_path / "shared"))
    group = only_group(merged(tmp_path), "data_parallel")
    (odd,) = group["outliers"]
    assert group["processes"] == [0, 1, 2] and group["basis"].endswith("not inspected: rank 1")
    # Its peak is later in its life, and at the same place of a step; with one of another phase the text says so.
    phases = {process["devices"][0]["peak"]["phase"] for process in merged(tmp_path)["processes"]}
    assert ("; its peak is in " in vramtrace("report", "--full", tmp_path).stdout.replace("\n  ", " ")) == (len(phases) > 1)
    assert odd["process"] == 1 and odd["modules"] == [] and odd["lines"][0]["line"] == line_of("kept.append(torch.ones(")


def test_each_rank_sees_one_card(tmp_path):
    """Each calls its card 0; who fell first is told with the card's number."""
    record = f"CUDA_VISIBLE_DEVICES=$LOCAL_RANK exec {PROGRAM} run --quiet -o {tmp_path} {PYTHON} {SCRIPT} ddp {tmp_path} --fill 1"
    run([PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--no-python", "sh", "-c", record], preload=False,
        check=False, VRAMTRACE_STANDIN_DEVICES="2", OMP_NUM_THREADS="1", VRAMTRACE_STANDIN_SHARED=str(tmp_path / "shared"),
        VRAMTRACE_STANDIN_MEMORY="8GiB")
    text = vramtrace("oom", tmp_path).stdout
    assert re.search(r"^  rank 1 +first +1 +1 GiB", text, re.MULTILINE)
    assert re.search(r"^Why rank 1 differs +rank 1 +rank 0 +difference", text, re.MULTILINE)


def test_a_search_over_settings_is_no_job_of_ranks(tmp_path):
    """One shell starts trainings of one program that differ in a number: that they have the same parameters says nothing."""
    program = tmp_path / "one.py"
    program.write_text("import sys, torch\nmodel = torch.nn.Linear(256, int(sys.argv[1])).cuda()\n"
                       "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor _ in range(3):\n"
                       "    model(torch.randn(64, 256, device='cuda')).sum().backward(); optimizer.step(); optimizer.zero_grad()\n"
                       "import time; time.sleep(2)\n")
    script = " & ".join(f"{PYTHON} {program} {width}" for width in (256, 512)) + " & wait"
    run(["sh", "-c", script], trace=tmp_path / "%p.vrt")
    (run_told,) = merged(tmp_path)["runs"]
    assert run_told["layout"] == "unknown" and "there is no evidence that they train one model together" in run_told["layout_basis"]


def test_the_example(tmp_path):
    example = SCRIPT.parents[2] / "examples" / "ddp.py"
    told = run([PROGRAM, "run", "--quiet", "-o", tmp_path, PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 3,
                example, "--backend", "gloo", "--odd", 1], preload=False, VRAMTRACE_STANDIN_DEVICES="2", OMP_NUM_THREADS="1")
    peaks = dict(re.findall(r"rank (\d): peak ([\d.]+ MiB)", told.stdout))
    text = vramtrace("report", "--full", tmp_path).stdout
    assert len(peaks) == 3 and all(f"{float(peak.split()[0]):.0f} MiB" in text for peak in peaks.values()) and "Rank 1 peaks at" in text


def test_ranks_that_no_launcher_names(tmp_path):
    """torch.multiprocessing.spawn: what they told PyTorch, and who met whom. Two such jobs in one folder."""
    script = SCRIPT.with_name("spawned_script.py")
    with socket.create_server(("127.0.0.1", 0)) as free:
        urls = [f"tcp://127.0.0.1:{free.getsockname()[1]}", f"file://{tmp_path}/met"]
    jobs = " & ".join(f"{PYTHON} {script} {tmp_path} {url} {ranks}" for url, ranks in zip(urls, (3, 2))) + " & wait"
    run([PROGRAM, "run", "--quiet", "-o", tmp_path, "sh", "-c", jobs], preload=False, OMP_NUM_THREADS="1")
    counted = {int(path.stem): json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    told = merged(tmp_path)
    workers = [process for process in told["processes"] if process["pid"] in counted]
    assert len(workers) == 5
    for process in workers:
        truth = counted[process["pid"]]
        assert process["rank"] == truth["rank"] and process["devices"][0]["peak"]["block_bytes"] == truth["allocated_peak"]
    runs = [run_told for run_told in told["runs"] if run_told["launcher"] == "torch.distributed"]
    assert sorted(run_told["world_size"] for run_told in runs) == [2, 3] and not any(run_told["missing_ranks"] for run_told in runs)
    for run_told in runs:
        stores = {counted[process["pid"]]["store"] for process in workers if process["run"] == told["runs"].index(run_told)}
        assert len(stores) == 1


def test_two_trainings_on_one_card(tmp_path):
    """Not launched together: two processes, who holds what."""
    programs = [f"import torch; {'x' * (size // 100)} = torch.empty({size} << 20, dtype=torch.uint8, device='cuda'); "
                f"open({str(tmp_path / str(size))!r}, 'w'); import os, time\n"
                f"while len([n for n in os.listdir({str(tmp_path)!r}) if n.isdigit()]) < 2: time.sleep(0.05)\n"
                f"f, t = torch.cuda.mem_get_info(); open({str(tmp_path / 'used')!r} + '{size}', 'w').write(str(t - f)); time.sleep(0.5)"
                for size in (100, 300)]
    script = " & ".join(f"{PYTHON} -c \"{program}\"" for program in programs) + " & wait"
    run(["sh", "-c", script], trace=tmp_path / "%p.vrt", VRAMTRACE_STANDIN_SHARED=str(tmp_path / "shared"))
    told = merged(tmp_path)
    assert [run_told["launcher"] for run_told in told["runs"]] == [None, None]
    (card,) = told["gpus"]
    assert [holder["bytes"] >> 20 for holder in card["processes"]] == [300, 100] and card["context_bytes"] == 2 * CONTEXT
    assert card["most_bytes"] == int((tmp_path / "used100").read_text()) == int((tmp_path / "used300").read_text())
    text = vramtrace("report", "--full", tmp_path).stdout
    assert all(f"pid {process['pid']}: python" in text for process in told["processes"])
    assert all(process["devices"][0]["context_bytes"] == CONTEXT for process in told["processes"])  # by NVML
