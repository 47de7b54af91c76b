"""CuPy: names of the arrays within what its pool takes from the driver."""

from support import Framework
from helpers import info, report, vramtrace

cupy = Framework("venv-frameworks", "cupy")
pytestmark = cupy.needed


def test_arrays_within_a_driver_allocation(tmp_path):
    trace = tmp_path / "run.vrt"
    truth = cupy.run("cupy_names_script.py", trace)
    told = {path: size for path, _, size in truth["arrays"]}
    view = report(trace, "--by", "owner", "--at", "mark:made")["devices"][0]["at"]
    owners = {owner["name"]: owner for owner in view["owners"]}
    for path, size in told.items():
        assert owners[path]["bytes"] == owners[path]["tensor_bytes"] == size and owners[path]["evidence"] == "exact", owners
    rest = owners.pop("in no array that has a name")
    assert set(owners) == set(told) and sum(told.values()) + rest["bytes"] == truth["bytes"]
    vramtrace("info", "--verify", trace)
    assert info(trace)["trace"]["dropped"] == 0
