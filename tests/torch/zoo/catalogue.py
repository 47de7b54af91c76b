"""All trainings of the tests, by name."""
import importlib
import itertools

import torch

import models
from zoo import real, sources
from zoo.truth import Record


def module(source):
    package = {sources.HERE.parent: "", sources.HERE: "zoo."}.get(source.parent, f"zoo.{source.parent.name}.")
    return importlib.import_module(package + source.stem)


MODULES = [module(source) for source in [*sources.SOURCES, *itertools.chain(*sources.UNSEEN.values())]]
APART = tuple(f"zoo.{folder}." for folder in sources.FOLDERS)
ALL = {name: program for module in MODULES for name, program in module.PROGRAMS.items()}
assert len(ALL) == sum(len(module.PROGRAMS) for module in MODULES), "two programs have one name"


def import_packages(names):
    """What the programs of a file need and takes long (imported()); those apart share real.py's."""
    for module in MODULES:
        if not module.PROGRAMS.keys().isdisjoint(names) and (module.__name__.startswith(APART) or hasattr(module, "imported")):
            getattr(module, "imported", real.imported)()


def run(name, truth):
    models.settings()
    torch.manual_seed(0)
    record = Record(name, truth)
    ALL[name](record)
    record.write()
