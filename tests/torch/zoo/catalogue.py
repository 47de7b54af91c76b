"""All trainings of the tests, by name."""
import importlib
import pathlib

import torch

import models
import variants
from zoo import awkward, real, unusual
from zoo.truth import Record

FOLDER = pathlib.Path(__file__).resolve().parent / "unseen"
UNSEEN = {name: function for path in sorted(FOLDER.glob("*.py"))
          for name, function in importlib.import_module(f"zoo.unseen.{path.stem}").PROGRAMS.items()}
ALL = {**variants.VARIANTS, **awkward.AWKWARD, **unusual.UNUSUAL, **real.REAL, **UNSEEN}
NEED_PACKAGES = {*real.REAL, *UNSEEN}  # of those that real.imported() brings


def run(name, truth):
    models.settings()
    torch.manual_seed(0)
    record = Record(name, truth)
    ALL[name](record)
    record.write()
