"""Reinforcement learning: proximal policy optimization, deep Q-learning, preferences of pairs."""
import copy
import random
from collections import deque, namedtuple

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F

DEVICE = torch.device("cuda")


# --- proximal policy optimization, in one file ------------------------------------------------------------------------------

def layer_init(layer, std=2 ** 0.5):
    nn.init.xavier_uniform_(layer.weight, std)
    nn.init.constant_(layer.bias, 0.0)
    return layer


class Agent(nn.Module):
    def __init__(self, actions=6):
        super().__init__()
        self.network = nn.Sequential(
            layer_init(nn.Conv2d(4, 32, 8, stride=4)), nn.ReLU(), layer_init(nn.Conv2d(32, 64, 4, stride=2)), nn.ReLU(),
            layer_init(nn.Conv2d(64, 64, 3, stride=1)), nn.ReLU(), nn.Flatten(), layer_init(nn.Linear(64 * 49, 512)), nn.ReLU())
        self.actor, self.critic = layer_init(nn.Linear(512, actions), std=0.01), layer_init(nn.Linear(512, 1), std=1)

    def get_value(self, x):
        return self.critic(self.network(x / 255.0))

    def get_action_and_value(self, x, action=None):
        hidden = self.network(x / 255.0)
        probs = Categorical(logits=self.actor(hidden), validate_args=False)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(hidden)


class Games:
    """Some games at once, played on the processor."""

    def __init__(self, count):
        self.count = count

    def reset(self):
        return torch.randint(0, 256, (self.count, 4, 84, 84), dtype=torch.uint8).numpy()

    def step(self, action):
        return self.reset(), torch.rand(self.count).numpy(), (torch.rand(self.count) < 0.05).float().numpy()


def ppo_one_file(record):
    """Frames, actions and values of a rollout lie on the device; each rollout is learned in two epochs of mini-batches."""
    envs, steps, minibatch = Games(4), 8, 16
    agent = Agent().to(DEVICE)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    obs = torch.zeros(steps, 4, 4, 84, 84).to(DEVICE)
    actions, logprobs, rewards, dones, values = (torch.zeros(steps, 4).to(DEVICE) for _ in range(5))
    record.watch([agent], [optimizer])
    record.hold("input", lambda: [obs, actions, logprobs, rewards, dones, values, next_obs, next_done])
    next_obs, next_done = torch.Tensor(envs.reset()).to(DEVICE), torch.zeros(4).to(DEVICE)
    for iteration in range(2):
        with record.free_choice():
            for t in range(steps):
                obs[t], dones[t] = next_obs, next_done
                with torch.no_grad():
                    action, logprob, _, value = agent.get_action_and_value(next_obs)
                    values[t] = value.flatten()
                actions[t], logprobs[t] = action, logprob
                played, reward, done = envs.step(action.cpu().numpy())
                rewards[t] = torch.tensor(reward).to(DEVICE).view(-1)
                next_obs, next_done = torch.Tensor(played).to(DEVICE), torch.Tensor(done).to(DEVICE)
                record.note("input", [next_obs, next_done])
        record.take("rollout", 10 * iteration)
        with torch.no_grad(), record.free_choice():
            next_value = agent.get_value(next_obs).reshape(1, -1)
            advantages = torch.zeros_like(rewards)
            last = 0
            for t in reversed(range(steps)):
                following = next_value if t == steps - 1 else values[t + 1]
                alive = 1.0 - (next_done if t == steps - 1 else dones[t + 1])
                delta = rewards[t] + 0.99 * following * alive - values[t]
                advantages[t] = last = delta + 0.99 * 0.95 * alive * last
            returns = advantages + values
        b_obs = obs.reshape((-1, 4, 84, 84))
        b_logprobs, b_actions, b_advantages = logprobs.reshape(-1), actions.reshape(-1), advantages.reshape(-1)
        b_returns = returns.reshape(-1)
        record.note("input", [returns, advantages])
        indices = torch.randperm(32)
        for number, start in enumerate(range(0, 32, minibatch)):
            mb = indices[start:start + minibatch].to(DEVICE)
            mb_obs, mb_actions = b_obs[mb], b_actions.long()[mb]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(mb_obs, mb_actions)
            ratio = (newlogprob - b_logprobs[mb]).exp()
            mb_advantages = b_advantages[mb]
            mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
            pg_loss = torch.max(-mb_advantages * ratio, -mb_advantages * ratio.clamp(0.8, 1.2)).mean()
            v_loss = 0.5 * ((newvalue.view(-1) - b_returns[mb]) ** 2).mean()
            loss = pg_loss - 0.01 * entropy.mean() + 0.5 * v_loss
            batch = (mb_obs, mb_actions, mb)
            step = 10 * iteration + number + 1
            record.take("fwd", step, batch)
            optimizer.zero_grad()
            loss.backward()
            record.take("bwd", step, batch)
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            record.take("step", step, batch)


# --- deep Q-learning, as in PyTorch's tutorial ---------------------------------------------------------------------------------

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *items):
        self.memory.append(Transition(*items))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, observations=32, actions=4, width=768):
        super().__init__()
        self.layer1, self.layer2 = nn.Linear(observations, width), nn.Linear(width, width)
        self.layer3 = nn.Linear(width, actions)

    def forward(self, x):
        return self.layer3(F.relu(self.layer2(F.relu(self.layer1(x)))))


def dqn_soft_target(record):
    """Each played state is a tensor on the device, kept in a deque; the target network follows by its state_dict."""
    policy_net, target_net = DQN().to(DEVICE), DQN().to(DEVICE)
    target_net.load_state_dict(policy_net.state_dict())
    optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-4, amsgrad=True)
    memory = ReplayMemory(200)
    record.watch([policy_net, target_net], [optimizer])
    record.hold("input", lambda: [list(transition) for transition in memory.memory])
    state = torch.rand(1, 32, device=DEVICE)
    for step in range(36):
        if random.random() > 0.3:
            with torch.no_grad(), record.free_choice():
                action = policy_net(state).max(1).indices.view(1, 1)
        else:
            action = torch.tensor([[random.randrange(4)]], device=DEVICE, dtype=torch.long)
        next_state = torch.rand(32).to(DEVICE).unsqueeze(0)
        memory.push(state, action, next_state, torch.tensor([1.0], device=DEVICE))
        state = next_state
        if len(memory) < 32:
            continue
        batch = Transition(*zip(*memory.sample(32)))
        state_batch, action_batch, reward_batch = torch.cat(batch.state), torch.cat(batch.action), torch.cat(batch.reward)
        following = torch.cat(batch.next_state)
        inputs = (state_batch, action_batch, reward_batch, following)
        values = policy_net(state_batch).gather(1, action_batch)
        with torch.no_grad(), record.free_choice():
            expected = reward_batch + 0.99 * target_net(following).max(1).values
        loss = nn.SmoothL1Loss()(values, expected.unsqueeze(1))
        record.take("fwd", step, inputs)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
        record.take("bwd", step, inputs)
        optimizer.step()
        target_state, policy_state = target_net.state_dict(), policy_net.state_dict()
        for key in policy_state:
            target_state[key] = policy_state[key] * 0.005 + target_state[key] * 0.995
        target_net.load_state_dict(target_state)
        del target_state, policy_state
        record.take("step", step, inputs)


# --- preferences -------------------------------------------------------------------------------------------------------------

def logps(model, batch):
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, :-1]
    labels = batch["input_ids"][:, 1:]
    each = torch.gather(logits.log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)
    return (each * batch["mask"][:, 1:]).sum(-1)


def direct_preference(record):
    """DPO by hand: the chosen and the rejected answers in one forward, the policy beside its frozen copy."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=3000, hidden_size=192, intermediate_size=512, num_hidden_layers=3,
                                         num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=True)).to(DEVICE)
    model.config.use_cache = False
    ref_model = copy.deepcopy(model).eval()
    for param in ref_model.parameters():
        param.requires_grad = False
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-7)
    record.watch([model, ref_model], [optimizer])
    for step in range(4):
        batch = {"input_ids": torch.randint(0, 3000, (4, 48)), "attention_mask": torch.ones(4, 48, dtype=torch.long),
                 "mask": torch.cat([torch.zeros(4, 16), torch.ones(4, 32)], 1)}
        batch = {key: value.to(DEVICE) for key, value in batch.items()}
        with torch.no_grad(), record.free_choice():
            ref_chosen, ref_rejected = logps(ref_model, batch).chunk(2)
        chosen, rejected = logps(model, batch).chunk(2)
        margin = (chosen - ref_chosen) - (rejected - ref_rejected)
        loss = -F.logsigmoid(0.1 * margin).mean()
        record.take("fwd", step, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        record.take("bwd", step, batch)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, batch)
