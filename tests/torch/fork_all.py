"""Runs scripts by children.py, two at a time.

    fork_all.py FOLDER NAME=SCRIPT[,ARGUMENT...]...

FOLDER gets NAME.log and NAME.vrt; stdout gets one line of JSON: {NAME: exit code}."""
import functools
import json
import os
import pathlib
import sys
import types

import children


def script(path, *arguments):
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    main = sys.modules["__main__"] = types.ModuleType("__main__")  # as where it is run alone, it stays until the end
    main.__file__ = path
    exec(compile(pathlib.Path(path).read_text(), path, "exec"), main.__dict__)


def main():
    jobs = (job.partition("=") for job in sys.argv[2:])
    print(json.dumps(children.run({name: functools.partial(script, *command.split(",")) for name, _, command in jobs},
                                  pathlib.Path(sys.argv[1]))))


main()
