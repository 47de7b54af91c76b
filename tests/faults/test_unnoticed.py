"""Programs that would notice the recorder do not (hosts/host_table.py): each runs with it and without it, and is the same."""
import concurrent.futures
import importlib.util
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "hosts"), str(HERE.parent)]
from helpers import selected  # noqa: E402
from host_table import table  # noqa: E402

# Not as "run": benchmarks have a module of that name.
specification = importlib.util.spec_from_file_location("hosts_run", HERE / "hosts" / "run.py")
hosts = importlib.util.module_from_spec(specification)
sys.modules["hosts_run"] = hosts
specification.loader.exec_module(hosts)

LONG = bool(os.environ.get("VRAMTRACE_HOSTS_LONG"))
EVERY = int(os.environ.get("VRAMTRACE_HOSTS_EVERY", "1"))
ALL = table()


def test_names_are_their_own():
    assert len({(host.kind, host.name) for host in ALL}) == len(ALL)


def test_known_differences_are_documented():
    limits = " ".join((HERE.parents[1] / "docs/limits.md").read_text().split())
    assert {host.known for host in ALL if host.known and host.known not in limits} == set()


@pytest.fixture(scope="module")
def results(request):
    """They run two at a time, in processes of their own, those that were selected."""
    wanted = [host for host in selected(request, "host") if LONG or not host.slow]
    with concurrent.futures.ThreadPoolExecutor(2) as team:
        yield {id(host): team.submit(hosts.run_apart, host, host.runs if LONG else 1) for host in wanted}


@pytest.mark.parametrize("host", ALL[::EVERY], ids=lambda host: f"{host.kind}: {host.name}")
def test_host(host, results):
    if hosts.BY_RUN and host.kind in ("quiet", "trace destination"):
        pytest.skip("vramtrace run refuses these settings")
    if hosts.BY_RUN and host.name in ("no further process allowed, first", "locks all memory, low lock limit"):
        pytest.skip("the recorder has another user than run, and no trace: it cannot say so to run")
    if host.slow and not LONG:
        pytest.skip("only in the long form: VRAMTRACE_HOSTS_LONG=1")
    result = results[id(host)].result()
    if result["missing"]:
        pytest.skip(f"needs {result['missing']}")
    assert not result["unsound"]
    assert result["known"] or not result["differences"]
