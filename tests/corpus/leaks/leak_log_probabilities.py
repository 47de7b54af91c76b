"""REINFORCE over two environments: of the second the log probabilities are kept for a correction that never comes."""
import torch
from torch import nn
from torch.distributions import Categorical

from leak_truth import STEPS, batch, small_net


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = small_net(out=32)
        self.saved_log_probs = []

    def act(self, observation):
        dist = Categorical(logits=self.body(observation), validate_args=False)  # LEAK
        return dist.log_prob(torch.zeros(len(observation), dtype=torch.long, device="cuda"))


def main(probe):
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for _ in range(STEPS):
        rewards = torch.randn(32).cuda()
        loss = -(policy.act(batch()) * rewards).mean()
        policy.saved_log_probs.append(policy.act(batch()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.step()
