"""Inference: an object registers its own method as a hook of the model that it holds, and lists what the hook sees."""
import torch

from leak_truth import STEPS, batch, small_net


class Recorder:
    def __init__(self, model):
        self.model, self.outputs = model, []
        model[-1].register_forward_hook(self.keep)

    def keep(self, module, inputs, output):
        self.outputs.append(output)


def main(probe):
    recorder = Recorder(small_net().eval())
    with torch.no_grad():
        for _ in range(STEPS + 12):
            recorder.model(batch())  # LEAK
            probe.step()
