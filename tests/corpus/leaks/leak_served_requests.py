"""No training at all: a server's answers, each with its graph, in a dict that nobody empties."""
from leak_truth import STEPS, batch, small_net


class Server:
    def __init__(self):
        self.model = small_net()
        self.answers = {}

    def answer(self, number):
        self.answers[number] = self.model(batch())  # LEAK


def main(probe):
    server = Server()
    for number in range(STEPS):
        server.answer(number)
        probe.step()
