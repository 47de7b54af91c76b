"""vramtrace top: against the processes' own books, crafted rings, Prometheus' own readers, and on a terminal."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "readers")]
from exports import READERS  # noqa: E402
from helpers import PROGRAM  # noqa: E402
from ring_file import Ring  # noqa: E402
from test_control import ENVIRONMENT, start_host, vramtrace  # noqa: E402,F401
from test_terminal import Terminal  # noqa: E402

GRAFANA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "grafana"


def top(*arguments, **more):
    return vramtrace("top", *arguments, **more)


def told(*arguments):
    return json.loads(top("--once", "--json", *arguments).stdout)


# Numbers.


def test_a_processs_own_books(start_host):
    host = start_host(RANK="7")
    most = held = made = 0
    for line in ("allocate 4096", "allocate 100000", "free", "allocate 8192", "free", "allocate 1000000"):
        held = host.do(line)
        most = max(most, held)
        made += int(line.split()[1]) if line != "free" else 0
        process, = told(host.pid)["processes"]
        use, = process["devices"]
        assert (use["driver_bytes"], use["driver_peak_bytes"], process["driver_made_bytes"]) == (held, most, made)
        assert [use[name] for name in ("segment_bytes", "segment_peak_bytes", "block_bytes", "block_peak_bytes")] == [0, 0, 0, 0]
    assert (process["rank"], process["state"], process["trace"], process["block_made_bytes"]) == ("7", "recording", str(host.trace), 0)
    assert process["command"] == f"{sys.executable} {host.trace.parent / 'host.py'}" and process["user_id"] == os.getuid()
    host.do("stop 0")
    assert told(host.trace)["processes"][0]["state"] == "paused"
    host.end()
    assert len(host.made()) == process["events"] - sum(event["kind"] != "alloc" for event in host_events(host)[:process["events"]])


def host_events(host):
    return [json.loads(line) for line in vramtrace("info", "--events", "--json", host.trace).stdout.splitlines()]


def test_rates(start_host):
    host = start_host()
    host.do("allocate 4096")
    running = subprocess.Popen([PROGRAM, "top", "--json", "--interval", "1", "--count", "2", host.pid], env=ENVIRONMENT,
                               stdout=subprocess.PIPE, text=True)
    first = json.loads(running.stdout.readline())
    host.do(*["allocate 5000"] * 30)
    second = json.loads(running.stdout.readline())
    assert running.wait(30) == 0
    seconds = (second["unix_ns"] - first["unix_ns"]) / 1e9
    before, after = first["processes"][0], second["processes"][0]
    assert (before["events_per_second"], before["made_bytes_per_second"]) == (None, None)
    assert after["made_bytes_per_second"] * seconds == pytest.approx(30 * 5000, rel=1e-3)
    assert after["events_per_second"] * seconds == pytest.approx(after["events"] - before["events"], rel=1e-3)
    assert after["events"] - before["events"] >= 30


def test_by_folder(start_host, tmp_path):
    host = start_host()
    host.do("allocate 4096")
    (tmp_path / "other").mkdir()
    assert [process["pid"] for process in told(tmp_path)["processes"]] == [int(host.pid)]
    assert told(tmp_path / "other")["processes"] == []
    assert top("--once", tmp_path / "other").stdout.endswith("No process is being recorded. Start one with: vramtrace run COMMAND\n")


def test_one_that_stands_still_is_not_settled(tmp_path):
    """What it recorded last was never taken from its ring: it says so."""
    with Ring(tmp_path / "x.vrt").device(0, driver=(5, 5)) as ring:
        assert told(os.getpid())["processes"][0]["settled"]
        data = bytearray(ring.bytes())
        data[88] = 9  # ring_reserved
        ring.path.write_bytes(data)
        assert not told(os.getpid())["processes"][0]["settled"]


# Cards.


def test_cards_are_told_apart_by_their_uuids(tmp_path):
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    first, second = bytes(range(16)), bytes(range(1, 17))
    one = Ring(tmp_path / "1.vrt", rank="0").device(0, (100, 100), uuid=first, name=b"Card", total=1000, free=600,
                                                    info_ns=now - 9_000_000_000)
    # Started with another CUDA_VISIBLE_DEVICES: its device 0 is another card, and its device 1 the first one.
    two = Ring(tmp_path / "2.vrt", rank="1").device(0, (7, 8), uuid=second, name=b"Card", total=1000) \
        .device(1, (30, 40), uuid=first, name=b"Card", total=1000, free=500, info_ns=now - 2_000_000_000)
    with one, two:
        document = told(tmp_path)
        cards = {card["uuid"]: card for card in document["devices"]}
        text = top("--once", tmp_path).stdout
    shared, alone = cards["GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"], cards["GPU-01020304-0506-0708-090a-0b0c0d0e0f10"]
    assert len(document["devices"]) == 2
    assert (shared["driver_bytes"], shared["processes"], shared["free_bytes"], shared["total_bytes"]) == (130, 2, 500, 1000)
    assert 2e9 <= shared["info_age_ns"] < 9e9
    assert (alone["driver_bytes"], alone["processes"], alone["free_bytes"], alone["info_age_ns"]) == (7, 1, None, None)
    assert [line.split()[:2] for line in text.splitlines()[2:4]] == [["0a", "2"], ["0b", "1"]]
    assert sorted(line.split()[1:4] for line in text.splitlines()[6:]) == [["0", "0a", "100"], ["1", "0a", "30"], ["1", "0b", "7"]]


def test_a_job_of_eight_ranks(tmp_path):
    """On two cards, in each form; of a terminal of 24 lines each rank has its own."""
    uuids = [bytes([i + 1] * 16) for i in range(2)]
    rings = [Ring(tmp_path / f"{rank}.vrt", rank=str(rank), events=rank).device(
        rank % 2, (10 + rank, 20 + rank), (rank, 5 + rank), (9 + rank, 9 + rank), uuids[rank % 2], b"Card", 1000) for rank in range(8)]
    with contextlib.ExitStack() as stack:
        for ring in rings:
            stack.enter_context(ring)
        document, text, metrics = told(tmp_path), top("--once", "--sort", "rank", tmp_path).stdout, top("--prometheus", tmp_path).stdout
    assert {process["rank"]: process["devices"][0]["driver_bytes"] for process in document["processes"]} == \
        {str(rank): 10 + rank for rank in range(8)}
    assert [(card["processes"], card["driver_bytes"]) for card in sorted(document["devices"], key=lambda card: card["uuid"])] == \
        [(4, 10 + 12 + 14 + 16), (4, 11 + 13 + 15 + 17)]
    rows = text.splitlines()
    assert len(rows) <= 24 and max(map(len, rows)) <= 80 and [row.split()[1] for row in rows[-8:]] == [str(rank) for rank in range(8)]
    assert sorted(map(int, re.findall(r"^vramtrace_driver_bytes{.*} (\d+)$", metrics, re.M))) == list(range(10, 18))


def test_an_earlier_recorder_has_no_top_counters(tmp_path):
    """Its ring begins where the top counters are now."""
    with Ring(tmp_path / "x.vrt", header_bytes=8192, kept=1, made=(5, 5)).device(0, (9, 9), segments=(7, 7), name=b"Card", total=5):
        document = told(tmp_path)
    process, = document["processes"]
    assert (process["block_made_bytes"], process["devices"][0]["segment_bytes"], process["devices"][0]["driver_bytes"]) == (None, None, 9)
    assert (document["devices"][0]["name"], document["devices"][0]["total_bytes"]) == (None, None)


# Text.


def test_marked_as_paused_and_lossy(tmp_path):
    with Ring(tmp_path / "x.vrt", lost=3, lost_definitions=4, without_stack=5, paused=1).device(0, (1 << 30, 3 << 30), (1 << 29, 1 << 30)):
        text = top("--once", "--width", "160", tmp_path).stdout
        process, = told(tmp_path)["processes"]
    assert "paused lost 12 python" in text and "512 MiB" in text and "1 GiB" in text
    assert (process["lost_events"], process["lost_definitions"]) == (3, 9)


def test_a_servers_pool(tmp_path):
    """What its objects said last: an inspection does not look at each moment."""
    seen = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 7_000_000_000
    with Ring(tmp_path / "x.vrt", pool=(13048, 16, 529, 11, seen)).device(0, (1 << 30, 3 << 30)):
        text, metrics = top("--once", "--width", "160", tmp_path).stdout, top("--prometheus", tmp_path).stdout
        process, = told(tmp_path)["processes"]
    assert re.search(r"KV 8,464 of 208,768 tokens, 11 running \([789]s ago\) python", text), text
    assert (process["kv_pool_tokens"], process["kv_used_tokens"], process["requests"]) == (208768, 8464, 11)
    assert 7e9 <= process["kv_age_ns"] < 60e9
    assert re.findall(r"^vramtrace_(kv_\w+|requests){.*} (\d+)$", metrics, re.M) == [
        ("kv_pool_tokens", "208768"), ("kv_used_tokens", "8464"), ("requests", "11")]
    with Ring(tmp_path / "x.vrt").device(0, (1 << 30, 3 << 30)):
        process, = told(tmp_path)["processes"]
    assert [process[name] for name in ("kv_pool_tokens", "kv_used_tokens", "requests", "kv_age_ns")] == [None] * 4


HOSTILE = "\x1b[2J\x07ü\u202e\n\"\\"


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
@pytest.mark.parametrize("width", [40, 80, 119, 120, 250])
def test_every_width_and_nothing_that_moves_a_cursor(tmp_path, width, locale):
    rings = [Ring(tmp_path / f"{i}{HOSTILE}.vrt", rank=HOSTILE[:9], events=10 ** 18, lost=10 ** 15)
             .device(i, (1 << 62, 1 << 63), (1 << 60, 1 << 61), name=HOSTILE.encode(), total=1 << 63) for i in range(3)]
    with rings[0], rings[1], rings[2]:
        shown = subprocess.run([PROGRAM, "top", "--once", "--color=never", f"--width={width}", tmp_path], capture_output=True,
                               env={**ENVIRONMENT, "LC_ALL": locale}, timeout=60)
    assert shown.returncode == 0 and not shown.stderr
    text = shown.stdout.decode("utf-8" if locale != "C" else "ascii")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert max(map(len, text.splitlines())) <= width and len(text.splitlines()) == 1 + 1 + 3 + 1 + 1 + 3


def test_a_ring_full_of_anything(tmp_path):
    """Another process of the user can have written it."""
    import random
    choose = random.Random(5)
    with Ring(tmp_path / "x.vrt", rank="1").device(0, (5, 5)) as ring:
        good = ring.bytes()
        for turn in range(60):
            data = bytearray(good)
            for at in range(104, 16384):  # all behind what says whose ring it is
                if turn < 2 or choose.random() < 0.3:
                    data[at] = (0xFF, 0x80)[turn] if turn < 2 else choose.randrange(256)
            data[1184:1184 + len(bytes(ring.trace))] = ring.trace
            data[1184 + len(ring.trace)] = 0
            data[10208:10212] = bytes(4)  # the mark of its end
            ring.path.write_bytes(data)
            for how in ("--once", "--json", "--prometheus"):
                shown = subprocess.run([PROGRAM, "top", how, tmp_path], capture_output=True, env=ENVIRONMENT, timeout=60)
                assert shown.returncode == 0 and not shown.stderr
                assert how != "--json" or json.loads(shown.stdout)["processes"][0]["pid"] == os.getpid()


def test_sorted(tmp_path):
    rings = [Ring(tmp_path / f"{i}.vrt", rank=rank).device(i, driver, blocks) for i, (rank, driver, blocks) in enumerate(
        [("10", (5, 9), (4, 4)), ("9", (7, 8), (2, 2)), ("", (6, 7), (3, 3))])]

    def devices(*options):
        return [line.split()[2] for line in top("--once", tmp_path, *options).stdout.splitlines()[7:]]
    with rings[0], rings[1], rings[2]:
        assert devices() == devices("--sort", "blocks") == ["0", "2", "1"]
        assert devices("--sort", "driver") == ["1", "2", "0"]
        assert devices("--sort", "rank") == ["1", "0", "2"]
        assert devices("--sort", "device") == ["0", "1", "2"]


# Prometheus.


def families(text):
    if not READERS:
        pytest.skip("no VRAMTRACE_READERS")
    read = subprocess.run([READERS, GRAFANA.parents[1] / "tests/readers/prometheus_reader.py"], input=text, capture_output=True, text=True,
                          check=True, timeout=60)
    return {family["name"]: family for family in map(json.loads, read.stdout.splitlines())}


@pytest.fixture
def busy(tmp_path):
    """Two processes, one of them with two devices and hostile texts."""
    rings = [Ring(tmp_path / f"a{HOSTILE}.vrt", rank="3", events=2 ** 53 - 1, lost=2, lost_definitions=1, paused=1, made=(11, 12))
             .device(0, (1, 2), (3, 4), (5, 6), b"\x01" * 16, b"Card", 1000, 400, 1).device(5, (10, 20), (30, 40), (50, 60)),
             Ring(tmp_path / "b.vrt", pool=(64, 16, 5, 3, 1)).device(0, (7, 8), uuid=b"\x01" * 16, name=b"Card", total=1000)]
    with rings[0], rings[1]:
        yield tmp_path


def test_prometheus_own_parser(busy):
    text, document = top("--prometheus", busy).stdout, told(busy)
    found = families(text)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)  # it may be read on a terminal
    processes = {re.sub("[\x00-\x09\x0b-\x1f]", "\ufffd", process["trace"]): process for process in document["processes"]}
    info = {labels["trace"]: labels for _, labels, value in found["vramtrace_process_info"]["samples"] if value == 1}
    assert info.keys() == processes.keys() and any('"\\' in trace for trace in processes)
    assert all(info[trace]["command"] == process["command"] for trace, process in processes.items())
    assert found["vramtrace_processes"]["samples"] == [["vramtrace_processes", {}, 2]]
    expected = {"vramtrace_recording_paused": [process["state"] == "paused" for process in document["processes"]]}
    for name in ("events", "lost_events", "lost_definitions", "block_made_bytes", "driver_made_bytes"):
        expected[f"vramtrace_{name}"] = [process[name] for process in document["processes"]]
        assert found[f"vramtrace_{name}"]["type"] == "counter"
    for name in ("kv_pool_tokens", "kv_used_tokens", "requests"):
        expected[f"vramtrace_{name}"] = [process[name] for process in document["processes"] if process[name] is not None]
    uses = [use for process in document["processes"] for use in process["devices"]]
    for name in ("driver_bytes", "driver_peak_bytes", "segment_bytes", "segment_peak_bytes", "block_bytes", "block_peak_bytes"):
        expected[f"vramtrace_{name}"] = [use[name] for use in uses]
        assert found[f"vramtrace_{name}"]["type"] == "gauge"
    expected["vramtrace_card_size_bytes"] = [card["total_bytes"] for card in document["devices"] if card["total_bytes"]]
    expected["vramtrace_card_free_bytes"] = [card["free_bytes"] for card in document["devices"] if card["free_bytes"] is not None]
    assert {name: sorted(value for *_, value in found[name]["samples"]) for name in expected} == \
        {name: sorted(values) for name, values in expected.items()}
    assert found.keys() == expected.keys() | {"vramtrace_processes", "vramtrace_process_info", "vramtrace_card_free_age_seconds"}
    for family in found.values():  # no series twice
        labels = [json.dumps([name, labels], sort_keys=True) for name, labels, _ in family["samples"]]
        assert len(set(labels)) == len(labels) and family["help"].endswith(".")


def test_promtool(busy):
    if not shutil.which("promtool"):
        pytest.skip("no promtool (Debian: prometheus)")
    checked = subprocess.run(["promtool", "check", "metrics"], input=top("--prometheus", busy).stdout, capture_output=True,
                             text=True, timeout=60)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_the_file_is_whole_at_every_moment(busy, tmp_path_factory):
    file = tmp_path_factory.mktemp("collector") / "vramtrace.prom"
    whole = top("--prometheus", busy).stdout.splitlines()[-1].rsplit(" ", 1)[0]
    running = subprocess.Popen([PROGRAM, "top", "--prometheus", "--interval", "1", "--count", "3", "-o", file, busy], env=ENVIRONMENT)
    inodes = set()
    while running.poll() is None:
        if file.exists():
            inodes.add(file.stat().st_ino)
            assert file.read_text().splitlines()[-1].startswith(whole)
    assert running.returncode == 0 and len(inodes) >= 2
    assert os.listdir(file.parent) == [file.name] and file.stat().st_mode & 0o777 == 0o644 & ~os.umask(os.umask(0o22)) | 0o600


def test_the_dashboard_asks_only_for_what_there_is(busy):
    exported = re.findall(r"^# TYPE (\w+) ", top("--prometheus", busy).stdout, re.M)
    board = json.loads((GRAFANA / "vramtrace.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [variable["query"]["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    asked = {name for query in queries for name in re.findall(r"\bvramtrace_\w+", query)}
    assert len(queries) > 10 and asked <= set(exported)
    known = set(re.findall(r"[{,](\w+)=", top("--prometheus", busy).stdout)) | {"instance"}
    used = {name for query in queries for part in re.findall(r"\{(.*?)\}", query) for name in re.findall(r"(\w+)=", part)}
    used |= {name for panel in board["panels"] for target in panel["targets"]
             for name in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])}
    assert used and used <= known
    readme = (GRAFANA / "README.md").read_text()
    assert set(re.findall(r"`(vramtrace_\w+)`", readme)) == set(exported)


# On a terminal.


def plain(screen):
    return re.sub(rb"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>78])", b" ", screen).decode(errors="replace")


def quit_screen(terminal):
    terminal.press(b"q")
    text, status = terminal.end()
    assert status == 0
    return text


@pytest.mark.parametrize("columns,rows,term,locale", [(80, 24, "xterm-256color", "C.UTF-8"), (200, 50, "tmux-256color", "C.UTF-8"),
                                                      (80, 24, "vt100", "C"), (60, 10, "linux", "C.UTF-8")])
def test_the_screen(busy, columns, rows, term, locale):
    terminal = Terminal(["top", busy], rows, columns, TERM=term, LC_ALL=locale)
    terminal.wait_for(b"space pause")
    seen = plain(terminal.seen)
    assert "vramtrace top" in seen and f"{os.getpid()}" in seen and "paused" in seen and "BLOCKS" in seen
    assert ("▾" in seen) == (locale != "C")
    terminal.press(b"?")
    terminal.wait_for(b"Press any key to return")
    terminal.press(b"?")
    quit_screen(terminal)


def test_the_screen_is_resized(busy):
    import fcntl
    import struct
    import termios
    terminal = Terminal(["top", "--interval", "3600", busy], LINES="24", COLUMNS="80")  # what a shell once exported
    terminal.wait_for(b"space pause")
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 9, 40, 0, 0))
    terminal.wait_for(b"Too small: 40x9; needs 60x10")
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))
    terminal.wait_for(b"2 processes")
    quit_screen(terminal)


@pytest.mark.parametrize("options,environment,coloured", [([], {}, True), ([], {"NO_COLOR": "1"}, False), (["--color=never"], {}, False),
                                                          (["--color=always"], {"NO_COLOR": "1"}, True)])
def test_colours(busy, options, environment, coloured):
    terminal = Terminal(["top", *options, busy], TERM="xterm-256color", **environment)
    terminal.wait_for(b"space pause")
    assert bool(re.search(r"\x1b\[(\d+;)*3[1-7]m", quit_screen(terminal))) == coloured


def test_marks_and_inspections_from_the_screen(start_host):
    host = start_host()
    host.do("allocate 4096")
    terminal = Terminal(["top", host.pid], columns=80)  # the mark's name is not cut off
    terminal.wait_for(b"space pause")
    terminal.press(b"m")
    terminal.wait_for(b"mark name")
    terminal.press("größe".encode() + b"x\x7f\r")
    terminal.wait_for("mark:größe'".encode())
    terminal.press(b"i")
    terminal.wait_for(b"mark:inspect'")
    quit_screen(terminal)
    host.end()
    assert [event["name"] for event in host_events(host) if event["kind"] == "mark"] == ["größe", "inspect"]


def test_a_process_that_ends_is_shown_once_more(start_host, tmp_path):
    host = start_host()
    host.do("allocate 4096")
    terminal = Terminal(["top", tmp_path])
    terminal.wait_for(b"space pause")
    host.end()
    terminal.wait_for(b"ended")
    terminal.wait_for(b"No process is being recorded")
    quit_screen(terminal)


def test_the_screen_ends_with_the_named_process(start_host):
    host = start_host()
    host.do("allocate 4096")
    terminal = Terminal(["top", host.pid])
    terminal.wait_for(b"space pause")
    host.end()
    text, status = terminal.end()
    assert status == 0 and text.rstrip().endswith(f"the process has ended; next: vramtrace report {host.trace}")


@pytest.mark.parametrize("term", ["no-such-terminal", "dumb", ""])
def test_a_terminal_that_cannot(busy, term):
    text, status = Terminal(["top", busy], TERM=term).end()
    assert status == 0 and "printing once" in text and "2 processes" in text and "\x1b[?1049h" not in text


def test_ctrl_c_gives_the_terminal_back(busy):
    terminal = Terminal(["top", busy], TERM="xterm-256color")
    terminal.wait_for(b"space pause")
    terminal.press(b"\x03")
    text, status = terminal.end()
    assert status == 0 and "\x1b[?1049l" in text


def test_no_terminal_prints_once(busy):
    assert top(busy).stdout.splitlines()[1:] == top("--once", busy).stdout.splitlines()[1:]


# Wrong use.


@pytest.mark.parametrize("arguments,status,words", [
    (["--json", "--prometheus"], 2, "not both"),
    (["--once", "--count", "2"], 2, "--once takes one sample"),
    (["--interval", "0"], 2, "--interval must be a number from 1 to 86400, not '0'"),
    (["--sort", "size"], 2, "--sort takes pid, rank"),
    (["--onec"], 2, "did you mean --once?"),
    (["no-such-folder"], 2, "is not a PID, folder or trace"),
    ([__file__], 3, "no running process is writing to"),
    (["999999999"], 3, "no such process 999999999"),
    ([str(os.getpid())], 3, "is not being recorded"),
    (["--once", "-o", "/no-such-folder/x"], 4, "cannot write /no-such-folder/x"),
])
def test_wrong_use(arguments, status, words):
    said = top(*arguments, check=False)
    assert (said.returncode, said.stdout) == (status, "") and words in said.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="another user is needed")
def test_another_users_process(start_host):
    host = start_host()
    host.do("allocate 4096")
    with open(PROGRAM) as program:  # whose folder that user may not enter
        said = subprocess.run([f"/proc/self/fd/{program.fileno()}", "top", host.pid], capture_output=True, text=True, env=ENVIRONMENT,
                              user="nobody", cwd="/", pass_fds=[program.fileno()], timeout=60)
    assert said.returncode == 3 and "belongs to user root: only that user and root can see" in said.stderr


@pytest.mark.parametrize("how", ["another_user", "open_to_all", "a_pipe", "a_link", "cut_off"])
def test_a_file_that_is_no_ring(tmp_path, how):
    """Anybody can make files in /dev/shm: one that is not the process's own adds no row, and stops no command."""
    if how == "another_user" and os.geteuid() != 0:
        pytest.skip("needs root to make another user's file")
    with Ring(tmp_path / "own.vrt").device(0, (7, 8)), Ring(tmp_path / "x.vrt").device(1, (5, 5)) as planted:
        path = planted.path
        if how == "another_user":
            os.chown(path, 1234, 1234)
        elif how == "open_to_all":
            path.chmod(0o666)
        elif how == "cut_off":
            os.truncate(path, 600)
        else:
            content = path.read_bytes()
            path.unlink()
            if how == "a_pipe":
                os.mkfifo(path)
            else:
                (tmp_path / "content").write_bytes(content)
                path.symlink_to(tmp_path / "content")
        assert [process["trace"] for process in told(tmp_path)["processes"]] == [str(tmp_path / "own.vrt")]
        assert str(tmp_path / "x.vrt") not in top("--prometheus", tmp_path).stdout
        for words in ([], [str(tmp_path / "x.vrt"), "mark", "m"]):
            done = subprocess.run([PROGRAM, "ctl", *words], capture_output=True, text=True, env=ENVIRONMENT, timeout=20)
            assert done.returncode == (3 if words else 0) and str(tmp_path / "x.vrt") not in done.stdout, done
