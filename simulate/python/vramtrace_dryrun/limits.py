"""Ends long loops early: a DataLoader after some batches, the program after some steps of its optimizer.

The first two passes over a DataLoader have VRAMTRACE_DRYRUN_BATCHES batches, later ones a single one: what comes between epochs, and
after the last, is reached. A loop that begins its loader anew for ever ends after a hundred steps. Without a DataLoader the program ends
after three steps, or VRAMTRACE_DRYRUN_STEPS."""
import functools

from . import say, setting

FULL_PASSES, STEPS_WITHOUT_LOADER, STEPS_WITH_LOADER = 2, 3, 100


class Short:
    """The first batches of an iterator."""

    def __init__(self, iterator, batches):
        self.iterator, self.left = iterator, batches

    def __iter__(self):
        return self

    def __next__(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return next(self.iterator)

    def __getattr__(self, name):
        return getattr(self.iterator, name)


def install(torch):
    batches, steps = int(setting("BATCHES", "3")), int(setting("STEPS") or 0)
    used = {"loader": False}
    loader = torch.utils.data.DataLoader
    whole = loader.__iter__

    @functools.wraps(whole)
    def short(self):
        used["loader"] = True
        passes = self.__dict__["_vramtrace_passes"] = self.__dict__.get("_vramtrace_passes", 0) + 1
        return Short(whole(self), batches if passes <= FULL_PASSES else 1)

    if batches:
        loader.__iter__ = short

    state = {"first": None, "steps": 0}

    def count(optimizer, *_):
        state["first"] = state["first"] or id(optimizer)
        if id(optimizer) != state["first"]: # of several optimizers, each step steps the first once
            return
        state["steps"] += 1
        most = steps or (STEPS_WITH_LOADER if used["loader"] else STEPS_WITHOUT_LOADER)
        if state["steps"] >= most:
            say(f"ended after {most} step{'s' if most > 1 else ''} of {type(optimizer).__name__}")
            raise SystemExit(0)

    try:
        from torch.optim.optimizer import register_optimizer_step_post_hook
    except ImportError:
        return
    register_optimizer_step_post_hook(count)
