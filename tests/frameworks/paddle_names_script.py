"""Trains with Paddle, and prints at each mark which tensors it holds: the path, what it is for, address and bytes, as Paddle's own
functions say it (named_parameters, named_buffers, state of the optimizer)."""
import collections
import ctypes
import gc
import json
import sys

import paddle

api, truth = ctypes.CDLL(None), {}
inspect_now = getattr(api, "vramtrace_inspect", api.strlen)  # alone: a call of the same kind


class Block(paddle.nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.up = paddle.nn.Linear(width, 2 * width)
        self.norm = paddle.nn.BatchNorm1D(2 * width)
        self.down = paddle.nn.Linear(2 * width, width)
        self.register_buffer("mask", paddle.ones([width]))
        self.cache = {}

    def forward(self, inputs):
        self.cache["last"] = paddle.nn.functional.relu(self.norm(self.up(inputs)))
        return inputs + self.down(self.cache["last"]) * self.mask


class Trainer:
    def __init__(self, width):
        self.model = paddle.nn.Sequential(Block(width), paddle.nn.LayerList([Block(width)])[0], paddle.nn.Embedding(11, width))
        self.optimizer = paddle.optimizer.AdamW(parameters=self.model.parameters())

    def step(self, inputs):
        for block in list(self.model)[:2]:
            inputs = block(inputs)
        (inputs.sum() + self.model[2](paddle.arange(11)).sum()).backward()
        self.optimizer.step()


def place_of(tensor):
    elements = 1
    for extent in tensor.shape:
        elements *= extent
    return [tensor.data_ptr(), elements * tensor.element_size()]


def told(trainer, name):
    for path, parameter in trainer.model.named_parameters():
        yield [f"{name}.model.{path}", "parameter", *place_of(parameter)]
        if parameter.grad is not None:
            yield [f"{name}.model.{path}", "gradient", *place_of(parameter.grad)]
    for path, buffer in trainer.model.named_buffers():
        yield [f"{name}.model.{path}", "buffer", *place_of(buffer)]
    for key, states in trainer.optimizer._accumulators.items():
        for path, state in states.items():
            yield [f"{name}.optimizer['{key}']['{path}']", "optimizer_state", *place_of(state)]


def what_would_notice():
    return len(gc.get_objects()), gc.get_count()[0], sum(each["collections"] for each in gc.get_stats())


def take(mark, found):
    gc.collect()
    before = what_would_notice()
    inspect_now(mark.encode())
    for _ in range(100):  # the inspection is between two of these
        pass
    after = what_would_notice()
    truth[mark] = {"tensors": list(found()), "changed": [b - a for a, b in zip(before, after)]}


def everything():
    yield from told(trainer, "trainer")
    for number, block in enumerate(list(trainer.model)[:2]):
        if block.cache:
            yield [f"trainer.model.{number}.cache['last']", None, *place_of(block.cache["last"])]
    yield ["batch", None, *place_of(batch)]
    for index, tensor in enumerate(kept):
        yield [f"kept[{index}]", None, *place_of(tensor)]
    for tensor in hidden:
        yield [None, None, *place_of(tensor)]


trainer, kept, hidden = Trainer(30), [], collections.deque()
batch = paddle.ones([8, 30])
take("made", everything)
for number in range(3):
    trainer.step(batch)
    take(f"step{number}", everything)
    trainer.optimizer.clear_grad(set_to_zero=False)
kept += [paddle.ones([100 + number]) for number in range(3)]
hidden.append(paddle.ones([200]))
view = kept[0][10:20]  # begins within a block, or has one of its own: in neither case is it kept[0]
take("kept", everything)
print(json.dumps({"taken": truth, "view": place_of(view), "python": sys.version_info[:2]}))
