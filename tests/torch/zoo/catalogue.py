"""All trainings of the tests, by name."""
import importlib

import torch

import models
from zoo.sources import HERE, SOURCES
from zoo.truth import Record

MODULES = [importlib.import_module(f"zoo.{source.stem}" if source.parent == HERE else source.stem) for source in SOURCES]
ALL = {name: program for module in MODULES for name, program in getattr(module, module.__name__.split(".")[-1].upper()).items()}


def run(name, truth):
    models.settings()
    torch.manual_seed(0)
    record = Record(name, truth)
    ALL[name](record)
    record.write()
