"""python -m vramtrace kernel install: a Jupyter kernel whose process is recorded."""
import argparse
import json
import os
import sys
from typing import List

from . import Error, program


def _folder(arguments: argparse.Namespace) -> str:
    if arguments.prefix:
        return os.path.join(arguments.prefix, "share", "jupyter")
    return os.environ.get("JUPYTER_DATA_DIR") or os.path.join(
        os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share"), "jupyter")


def _install(arguments: argparse.Namespace) -> str:
    folder = os.path.join(_folder(arguments), "kernels", arguments.name)
    # --quiet: `run` becomes the kernel, whose process Jupyter then interrupts and ends itself.
    command = [program(), "run", "--quiet", *(["-o", os.path.abspath(arguments.out)] if arguments.out else []), "--", sys.executable,
               "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "kernel.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"argv": command, "display_name": arguments.display_name, "language": "python",
                   "metadata": {"debugger": True}}, file, indent=1)
        file.write("\n")
    return path


def main(words: List[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m vramtrace kernel", description="Installs a Jupyter kernel with this Python that records its own GPU "
        "memory. In its notebooks, `%load_ext vramtrace` and then `%vramtrace report` show it.")
    parser.add_argument("action", choices=["install"])
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="install in the user's Jupyter folder (the default)")
    where.add_argument("--prefix", metavar="FOLDER", help="install in FOLDER/share/jupyter")
    where.add_argument("--sys-prefix", dest="prefix", action="store_const", const=sys.prefix, help="install in this environment")
    parser.add_argument("--name", default="vramtrace", help="name of the kernel's folder (default: vramtrace)")
    parser.add_argument("--display-name", metavar="TEXT", default="Python %d.%d (vramtrace)" % sys.version_info[:2],
                        help="name shown in Jupyter")
    parser.add_argument("-o", "--out", metavar="PATH", help="folder or file for traces (default: the notebook's folder)")
    try:
        print(_install(parser.parse_args(words)))
    except (Error, OSError) as error:
        print("python -m vramtrace kernel: %s" % error, file=sys.stderr)
        return 2
    return 0
