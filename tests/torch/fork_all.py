"""Runs scripts by children.py, two at a time.

    fork_all.py FOLDER NAME=SCRIPT[,ARGUMENT...]...

FOLDER gets NAME.log and NAME.vrt; stdout gets one line of JSON: {NAME: exit code}."""
import functools
import json
import os
import pathlib
import runpy
import sys

import children


def script(path, *arguments):
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")


def main():
    jobs = (job.partition("=") for job in sys.argv[2:])
    print(json.dumps(children.run({name: functools.partial(script, *command.split(",")) for name, _, command in jobs},
                                  pathlib.Path(sys.argv[1]))))


main()
