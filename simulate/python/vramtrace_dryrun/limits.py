"""Ends long loops early: a DataLoader after some batches, the program after some steps of its optimizer.

The first two passes over a DataLoader have VRAMTRACE_DRYRUN_BATCHES batches, later ones a single one: what comes between epochs, and
after the last, is reached. Where gradients of several batches are added up, a pass has as many as two steps of the optimizer need. A
loop that begins its loader anew for ever ends after thirty steps; without a DataLoader the program ends after three, or
VRAMTRACE_DRYRUN_STEPS; with VRAMTRACE_DRYRUN_BATCHES=0 nothing ends it. VRAMTRACE_DRYRUN_LEAST: as many batches and steps at least, for
what was recorded so late."""
import functools

from . import around, say, setting

FULL_PASSES, STEPS_WITHOUT_LOADER, STEPS_WITH_LOADER = 2, 3, 30
STEPS, MOST_BATCHES = 2, 64  # of a pass whose gradients are added up


class Short:
    """The first batches of an iterator. `done`: how many backward passes and steps there were so far."""

    def __init__(self, iterator, batches, done):
        self.iterator, self.left, self.done = iterator, batches, done
        self.least = -MOST_BATCHES if batches >= STEPS else 0
        self.backwards, self.steps = done["backwards"], done["steps"] + STEPS

    def __iter__(self):
        return self

    def adds_up(self):
        return self.left > self.least and self.done["backwards"] > self.backwards and self.done["steps"] < self.steps

    def __next__(self):
        if self.left <= 0 and not self.adds_up():
            raise StopIteration
        self.left -= 1
        return next(self.iterator)

    def __getattr__(self, name):
        return getattr(self.iterator, name)


def install(torch):
    batches, steps, least = int(setting("BATCHES", "3")), int(setting("STEPS") or 0), int(setting("LEAST") or 0)
    batches = batches and max(batches, least)
    used = {"loader": False}
    done = {"first": None, "backwards": 0, "steps": 0}
    loader = torch.utils.data.DataLoader
    whole = loader.__iter__

    @functools.wraps(whole)
    def short(self):
        used["loader"] = True
        passes = self.__dict__["_vramtrace_passes"] = self.__dict__.get("_vramtrace_passes", 0) + 1
        return Short(whole(self), batches if passes <= FULL_PASSES else 1, done)

    def count_backward(result, args, kwargs):
        done["backwards"] += 1

    if batches:
        loader.__iter__ = short
        torch.autograd.backward = around()(lambda args, kwargs: None, torch.autograd.backward, count_backward)

    def count(optimizer, *_):
        done["first"] = done["first"] or id(optimizer)
        if id(optimizer) != done["first"]: # of several optimizers, each step steps the first once
            return
        done["steps"] += 1
        most = steps or batches and max(least, STEPS_WITH_LOADER if used["loader"] else STEPS_WITHOUT_LOADER)
        if most and done["steps"] >= most:
            say(f"ended after {most} step{'s' if most > 1 else ''} of {type(optimizer).__name__}")
            raise SystemExit(0)

    try:
        from torch.optim.optimizer import register_optimizer_step_post_hook
    except ImportError:
        return
    register_optimizer_step_post_hook(count)
