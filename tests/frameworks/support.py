"""Runs programs of a framework under the recorder, over stand-in libraries of its own.

Each framework is in a virtual environment that `tests/setup.sh setup_frameworks` makes; tests of one that is not there are
skipped. With an empty VRAMTRACE_RUN (a machine with a GPU) the framework finds NVIDIA's libraries by itself, and may be among the
packages of the Python that runs the tests.
"""
import json
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from helpers import BUILD, ENVIRONMENT, LIBRARY, RUN  # noqa: E402

CACHE = pathlib.Path(os.environ.get("VRAMTRACE_CACHE", pathlib.Path.home() / ".cache/vramtrace"))


class Framework:
    def __init__(self, environment, package):
        """ENVIRONMENT: a folder of the cache; PACKAGE: one that it has."""
        self.python = CACHE / environment / "bin/python"
        self.packages = next(self.python.parent.parent.glob("lib/python3.*/site-packages"), None)
        if self.packages is None and not RUN:
            self.python, self.packages = pathlib.Path(sys.executable), pathlib.Path(sysconfig.get_path("purelib"))
        self.there = self.python.exists() and self.packages is not None and (self.packages / package).exists()
        self.needed = pytest.mark.skipif(not self.there, reason=f"no {package}: tests/setup.sh setup_frameworks")

    def settings(self):
        if not RUN:
            return {}
        simulation = BUILD / "simulate"
        return {"LD_LIBRARY_PATH": f"{simulation}:{simulation}/runtime12", "VRAMTRACE_STANDIN_MEMORY": "8GiB"}

    def with_packages(self, environment, package):
        """Settings with which programs also find the packages of another virtual environment; {} if PACKAGE is not there."""
        folder = next((CACHE / environment).glob("lib/python3.*/site-packages"), None)
        return {"PYTHONPATH": str(folder)} if folder and (folder / package).exists() else {}

    def run(self, script, trace, *arguments, preload=True, **settings):
        """What the program printed in its last line, as JSON."""
        environment = {**ENVIRONMENT, **self.settings(), "VRAMTRACE_OUT": str(trace), **settings}
        middle = ["env", f"LD_PRELOAD={LIBRARY}"] if preload else []
        done = subprocess.run([*middle, self.python, HERE / script, *map(str, arguments)], env=environment,
                              capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])
