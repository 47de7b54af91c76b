"""All trainings of the tests, by name."""
import importlib

import torch

import models
from zoo import sources
from zoo.truth import Record


def programs(source):
    package = {sources.HERE.parent: "", sources.HERE: "zoo."}.get(source.parent, "zoo.unseen.")
    return importlib.import_module(package + source.stem).PROGRAMS


UNSEEN = {name: program for source in sources.UNSEEN for name, program in programs(source).items()}
ALL = {name: program for source in sources.SOURCES for name, program in programs(source).items()} | UNSEEN
NEED_PACKAGES = {*sources.names(sources.HERE / "real.py"), *UNSEEN}  # of those that real.imported() brings


def run(name, truth):
    models.settings()
    torch.manual_seed(0)
    record = Record(name, truth)
    ALL[name](record)
    record.write()
