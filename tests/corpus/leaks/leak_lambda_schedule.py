"""Each step's closure keeps the step's output; a list of closures is never emptied."""
import torch

from leak_truth import STEPS, batch, small_net


def main(probe):
    model = small_net()
    opt = torch.optim.AdamW(model.parameters())
    pending = []
    for _ in range(STEPS):
        out = model(batch())  # LEAK
        loss = out.std()
        pending.append(make_report(out, loss))
        loss.backward(retain_graph=True)
        opt.step()
        opt.zero_grad()
        probe.step()


def make_report(out, loss):
    def report():
        return {"mean": out.mean().item(), "loss": loss.item()}
    return report
