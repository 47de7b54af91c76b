"""All trainings of the tests, by name."""
import torch

import models
import variants
from zoo import awkward, inference, real, unusual
from zoo.truth import Record

ALL = {**variants.VARIANTS, **awkward.AWKWARD, **unusual.UNUSUAL, **real.REAL, **inference.INFERENCE}


def run(name, truth):
    models.settings()
    torch.manual_seed(0)
    record = Record(name, truth)
    ALL[name](record)
    record.write()
