"""A mask for each bucket of lengths, made when it is first needed; there are five buckets."""
import torch

from leak_truth import STEPS, batch, small_net, train_step

LENGTHS = (60, 130, 70, 200, 250, 140, 310, 64, 120, 300, 190, 61, 77, 129, 240, 192, 311, 66)
MASKS = {}


def mask_for(length):
    bucket = -(-length // 64)
    if bucket not in MASKS:
        MASKS[bucket] = torch.tril(torch.ones(bucket * 64, bucket * 64)).cuda()
    return MASKS[bucket]


def main(probe):
    model = small_net()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        weight = mask_for(LENGTHS[step])[:32, :1]
        train_step(model, optimizer, batch() * weight)
        probe.step()
