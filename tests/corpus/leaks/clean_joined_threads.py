"""Each step starts two threads that answer requests; their answers are read, and the threads are joined and dropped."""
import threading

import torch

from leak_truth import STEPS, batch, small_net


def answer(model, x, results, number):
    with torch.no_grad():
        results[number] = model(x).softmax(-1)


def main(probe):
    model = small_net(out=256).eval()
    for _ in range(STEPS):
        results = {}
        threads = [threading.Thread(target=answer, args=(model, batch(), results, number)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        scores = [results.pop(number).argmax(-1).tolist() for number in sorted(results)]
        assert len(scores) == 2
        del thread, threads
        probe.step()
