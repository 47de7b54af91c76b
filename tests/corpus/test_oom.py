"""Running out of memory in many ways (oom/): who asked, what filled the GPU, and what was free, against PyTorch's own counters
and list of segments and the simulated driver's books, all taken at that moment; and the cause and its remedy."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = map(str, (HERE, HERE.parent, HERE.parent / "golden"))
import catalogue  # noqa: E402
import helpers  # noqa: E402
import page_data  # noqa: E402
from judge import GPU_BYTES, failures_in, judge_oom, oom, requests_in, run_oom  # noqa: E402

pytestmark = pytest.mark.skipif(not helpers.RUN, reason="fills the GPU: only over the simulated one, whose size can be set")

READERS = os.environ.get("VRAMTRACE_READERS")
CLIENT = HERE.parent / "golden" / "mcp_client.py"
PROGRAMS = catalogue.read()
ALL = catalogue.names("oom")
FAILING = [name for name in ALL if "no failure" not in PROGRAMS[name].expected]
CAUSES = [name for name in ALL if "cause" in PROGRAMS[name].expected]
REMEDIES = [name for name in ALL if PROGRAMS[name].has_remedy]
HELD_OUT = ["evaluation", "forgotten_teacher", "kept_exception", "second_model"]  # the others: table.py oom --held-out SET


@pytest.fixture(scope="module", params=["1", "0"], ids=["inspections", "no inspections"])
def runs(request, tmp_path_factory):
    """{program: (trace, what it recorded, its exit code)}"""
    folder, inspects = tmp_path_factory.mktemp("oom"), request.param == "1"
    wanted = [*ALL, *HELD_OUT] if inspects else ALL
    codes = run_oom(folder, wanted, wanted if inspects else (), VRAMTRACE_INSPECT=request.param)
    return {name: (folder / f"{name}.vrt", failures_in(folder, name), code) for name, code in codes.items()}


def ends_run(name):
    return "goes on" not in PROGRAMS[name].expected


def asking_line(name):
    lines = PROGRAMS[name].path.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith("# asks"))


@pytest.mark.parametrize("name", HELD_OUT)
def test_held_out(runs, name):
    if name not in runs:
        pytest.skip("only with inspections")
    wrong, cause = judge_oom(runs[name][0].parent, name, {name: code for name, (_, _, code) in runs.items()})
    assert not wrong, cause


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_leads(runs, name):
    trace, facts, _ = runs[name]
    last = oom(trace)["last"]
    cause = last["causes"][0]
    assert cause["kind"] == PROGRAMS[name].expected["cause"] and cause["suffices"], last["causes"]
    assert cause["bytes"] >= last.get("missing_bytes", 0)
    for command in ("report", "oom"):
        text = " ".join(helpers.vramtrace(command, "--width", "200", trace).stdout.split())
        assert f" {cause['what']}: " in text and f"fix {cause['remedy']}" in text


@pytest.mark.parametrize("name", REMEDIES)
def test_the_remedy_helps(runs, name):
    """With the remedy the same script does not run out of memory."""
    if f"{name}-remedy" not in runs:
        pytest.skip("it is the same without inspections")
    trace, facts, code = runs[f"{name}-remedy"]
    assert code == 0
    assert name == "failed_try" or not facts  # there the first try fails as before


@pytest.mark.parametrize("name", ["built_in_loop", "built_and_caught"])
def test_weights_of_a_model_that_is_being_built(runs, name, request):
    """They are on no variable that lasts: only the functions that the error left have them."""
    if "no inspections" in request.node.name:
        pytest.skip("then nothing shows what they are")
    trace, facts, _ = runs[name]
    last = oom(trace)["last"]
    assert last["gpu"]["categories"]["parameter"] == facts[-1]["allocated"]
    assert last["causes"][0]["what"].startswith("the model: weights"), last["causes"]


@pytest.mark.parametrize("name", ["kv_pool", "kv_pool_slots"])
def test_a_pool_is_no_sequence(runs, name):
    cause = oom(runs[name][0])["last"]["causes"][0]
    assert "pool" in cause["what"] and "smaller" in cause["remedy"] and "sequences" not in cause["what"] + cause["remedy"]


@pytest.mark.parametrize("name, now, before", [("wide_batch", 20480 * 512 * 4, 2048 * 512 * 4)])
def test_a_larger_input(runs, name, now, before):
    """Rows × width × 4 bytes, of the last step and of those before it."""
    what = oom(runs[name][0])["last"]["causes"][0]["what"]
    assert what.startswith("step 3 is too big: inputs ") and "in steps 1–2; " in what
    assert f"inputs {now / 2**20:.0f} MiB" in what and f"were {before / 2**20:.0f} MiB" in what, what


def test_no_fragmentation_of_a_small_cache(runs):
    """A cache that holds the request is not the obstacle where it is under a tenth of the card."""
    for name in ("with_gradients", "history", "leak"):
        assert "ragmentation" not in helpers.vramtrace("oom", runs[name][0]).stdout


@pytest.mark.parametrize("name", FAILING)
def test_who_asked_for_what(runs, name):
    trace, facts, _ = runs[name]
    expected, shown = PROGRAMS[name].expected, oom(trace)
    assert requests_in(shown) == [fact["asked"] for fact in facts]
    assert all(refusal["requested_bytes"] <= fact["asked"] for refusal, fact in zip(shown["out_of_memory"], facts))
    last = shown["out_of_memory"][-1]
    assert pathlib.Path(last["requested_by"]["file"]).name == f"{name}.py"
    assert last["requested_by"]["line"] == asking_line(name)
    assert last["layer"] == expected.get("refused by", "framework") and last["ends_run"] == ends_run(name)
    assert expected.get("phase") in (None, last["phase"]) and (last["phase"] == "backward") == facts[-1]["backward"]
    if facts[-1]["backward"]:
        forward = r"the backward of \S+\.py:\d+ [^,()]+"
        assert re.fullmatch(rf"{forward}|\w+Backward\d \({forward}\)", last["requested_by"]["name"])
    assert (last["driver_tries"] == 0) == (name == "fraction")


@pytest.mark.parametrize("name", FAILING)
def test_the_whole_card(runs, name):
    trace, facts, _ = runs[name]
    last, fact = oom(trace)["last"], facts[-1]
    card = last["gpu"]
    assert card["total_bytes"] == GPU_BYTES
    assert sum(card["categories"].values()) == card["driver_bytes"] == fact["driver"]
    assert card["free_bytes"] == GPU_BYTES - fact["driver"] - fact["other"]
    assert card["other_bytes"] == fact["other"]
    assert last["at"]["block_bytes"] == fact["allocated"] and last["at"]["segment_bytes"] == fact["reserved"]
    missing = fact["asked"] - card["free_bytes"]
    assert last.get("missing_bytes", 0) == max(missing, 0)


@pytest.mark.parametrize("name", FAILING)
def test_what_was_free_in_the_cache(runs, name):
    trace, facts, _ = runs[name]
    cache = oom(trace)["last"]["cache"]
    holes = facts[-1]["holes"]
    assert sorted([hole["address"], hole["bytes"]] for hole in cache["holes"]) == holes
    assert cache["bytes"] == sum(size for _, size in holes)
    assert cache["largest_hole_bytes"] == max((size for _, size in holes), default=0)


@pytest.mark.parametrize("name", FAILING)
def test_the_report_begins_with_it(runs, name):
    trace, _, code = runs[name]
    assert (code != 0) == (ends_run(name) or name == "killed")
    for command in ("report", "oom"):
        text = helpers.vramtrace(command, "--width", "200", trace).stdout
        start = text.split("✗ OUT OF MEMORY")[1]
        assert f"{name}.py:{asking_line(name)}" in start.split("Lines")[0]
    shown = helpers.vramtrace("report", "--width", "200", trace).stdout
    assert (" in use at the out-of-memory error, " in shown) == ends_run(name)


@pytest.mark.parametrize("name", FAILING)
def test_it_fits_the_first_screen(runs, name):
    for command in ("report", "oom", "leaks", "frag"):
        shown = helpers.vramtrace(command, "--width", "80", runs[name][0].name, cwd=runs[name][0].parent).stdout.splitlines()
        assert len(shown) <= 24 and max(map(len, shown)) <= 80, "\n".join(shown)


def test_killed_is_killed(runs):
    assert runs["killed"][2] == -signal.SIGKILL


def test_survived_is_no_failure(runs):
    trace, facts, code = runs["survived"]
    shown = oom(trace)
    assert not facts and code == 0
    # 700 and 900 MiB did not fit beside the cache of what had gone before
    assert shown["out_of_memory"] == [] and shown["survived"]["times"] > 0
    assert shown["survived"]["largest_bytes"] == 900 << 20
    assert "No out-of-memory error" in helpers.vramtrace("oom", trace).stdout
    assert "OUT OF MEMORY" not in helpers.vramtrace("report", "--full", trace).stdout


def test_what_would_have_been_freed_next(runs):
    """In the loop that leaks it is the ReLU's output, by its backward, then the input; the outputs that are kept, nearly all that
    is held, are never freed."""
    trace, facts, _ = runs["leak"]
    last = oom(trace)["last"]
    lines = PROGRAMS["leak"].path.read_text().splitlines()
    large = [freed for freed in last["freed_next"] if freed["bytes"] == 16384 * 512 * 4]
    assert ["model(data)" in lines[freed["line"] - 1] for freed in large] == [True, False]
    assert large[0]["phase"] == "backward" and "torch.randn" in lines[large[1]["line"] - 1]
    assert sum(freed["bytes"] for freed in last["freed_next"]) < facts[-1]["allocated"] / 10


def test_what_stays_until_the_end_is_not_freed_next(runs):
    """After an error that was caught, parameters and the optimizer's state are only freed when the program ends."""
    trace, facts, _ = runs["hidden"]
    last = oom(trace)["last"]
    assert last["freed_next_happened"] and {freed["phase"] for freed in last["freed_next"]} == {"forward"}
    large, = [freed for freed in last["freed_next"] if freed["bytes"] > 1 << 30]
    assert asking_line("hidden") - 2 == large["line"] and not {"parameter", "optimizer_state"} & {
        freed["category"] for freed in last["freed_next"]}


def test_whose_request_was_granted_later(runs):
    """The first large batch did not fit beside the cache: it is made at another line than the one that asks in vain."""
    trace, facts, _ = runs["hidden"]
    shown = oom(trace)
    assert shown["survived"]["largest_line"]["line"] == asking_line("hidden") - 2
    assert shown["survived"]["largest_t_ns"] < shown["out_of_memory"][0]["t_ns"]
    text = " ".join(helpers.vramtrace("oom", trace).stdout.split())
    assert f"hidden.py:{asking_line('hidden') - 2} <module>, at step" in text.split("Besides, one request succeeded only after")[1]


def test_no_forecast_of_what_happened(runs):
    trace, _, _ = runs["leak"]
    leak, = json.loads(helpers.vramtrace("leaks", "--json", trace).stdout)["devices"][0]["leaks"]
    assert leak["leak"] and leak["forecast_step"] is None
    assert all("memory runs out at about step" not in helpers.vramtrace(command, trace).stdout for command in ("leaks", "report"))


@pytest.mark.skipif(not READERS, reason="VRAMTRACE_READERS is not set: no MCP client")
def test_an_assistant_reads_what_decides_first(runs):
    for name, words in (("leak", ["requested", "why", "a leak: ", "fix", "What filled the ", "Lines"]),
                        ("fragmentation", ["requested", "why", "fragmentation: ", "fix", "expandable_segments", "What filled the ",
                                          "Lines"])):
        trace, _, _ = runs[name]
        _, answer = json.loads(subprocess.run([READERS, CLIENT, helpers.BUILD / "analyzer/vramtrace", "mcp", trace], input='[["oom", {}]]',
                                              env={**os.environ, "VRAMTRACE_PYTHON": READERS}, capture_output=True, text=True, timeout=60,
                                              check=True).stdout)
        text = answer["text"]
        places = [text.find(word) for word in words]
        assert -1 not in places and places == sorted(places) and len(text.encode()) < 2400, text


def sentences(trace):
    """What report, leaks, oom and frag conclude: of leaks, causes, advice and fragmentation."""
    asked = {command: json.loads(helpers.vramtrace(*command.split(), "--json", trace).stdout)
             for command in ("report", "leaks", "oom", "frag --at peak")}
    for device in asked["report"]["devices"]:
        yield from (advice[key] for advice in device["advice"] for key in ("what", "why"))
    for device in asked["leaks"]["devices"]:
        yield from (leak[key] for leak in device["leaks"] for key in ("verdict", "why", "remedy"))
    yield from (cause[key] for cause in asked["oom"]["last"]["causes"] for key in ("what", "remedy", "examined"))
    yield from (text for device in asked["frag --at peak"]["devices"] for text in device["advice"])


@pytest.mark.skipif(not READERS, reason="VRAMTRACE_READERS is not set: no MCP client")
@pytest.mark.parametrize("name", ["leak", "fragmentation", "side_stream", "batch", "two_processes"])
def test_every_view_has_every_finding(runs, name, tmp_path):
    """Each sentence is in the page's data and in an assistant's answers."""
    trace, _, _ = runs[name]
    said = list(sentences(trace))
    helpers.vramtrace("html", "-o", tmp_path / "page.html", trace)
    _, (page,) = page_data.read(tmp_path / "page.html")
    shown = json.dumps([page.head, *(page.document(blob) for blob in ("report", "leaks", "oom"))], ensure_ascii=False)
    answers = subprocess.run([READERS, CLIENT, helpers.BUILD / "analyzer/vramtrace", "mcp", trace], capture_output=True, text=True,
                             input='[["report", {}], ["leaks", {}], ["oom", {}], ["frag", {"at": "peak"}]]', timeout=120, check=True,
                             env={**os.environ, "VRAMTRACE_PYTHON": READERS}).stdout
    told = json.dumps(json.loads(answers), ensure_ascii=False)
    for text in said:
        escaped = json.dumps(text, ensure_ascii=False)[1:-1]
        assert escaped in shown and (escaped in told or " ".join(text.split()) in " ".join(told.replace("\\n", " ").split())), text
    assert len(said) >= 3


def test_what_keeps_the_segments(runs):
    """Of the fragments, by frag: 80 segments of 20 MiB, each kept by one block of 6 MiB."""
    trace, facts, _ = runs["fragmentation"]
    device = json.loads(helpers.vramtrace("frag", "--json", trace).stdout)["devices"][0]
    assert device["reserved_bytes"] == facts[-1]["reserved"] and device["block_bytes"] == facts[-1]["allocated"]
    assert device["kept_bytes"] == device["hole_bytes"] == facts[-1]["reserved"] - facts[-1]["allocated"]
    line = next(number for number, text in enumerate(PROGRAMS["fragmentation"].path.read_text().splitlines(), 1)
                if "range(240)" in text)
    assert {segment["pin"][0]["line"] for segment in device["segments"]} == {line}
    assert f"fragmentation.py:{line}" in helpers.vramtrace("frag", "--width", "120", trace).stdout
