"""Agents that learn from what they have done: on the device lie rollouts, replayed transitions, imagined futures."""
import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributions import Categorical, Independent, Normal
from torch.nn import functional as F

cuda = torch.device("cuda")


def mlp(*sizes, last=None):
    layers = [layer for i, o in zip(sizes, sizes[1:]) for layer in (nn.Linear(i, o), nn.ELU())][:-1]
    return nn.Sequential(*layers, *([last] if last else []))


class DeviceWorlds:
    """Many worlds at once, simulated on the device."""

    def __init__(self, count, observations=64):
        self.state = torch.zeros(count, observations, device=cuda)
        self.drift = torch.randn(observations, observations).to(cuda) * 0.05

    @torch.no_grad()
    def step(self, action):
        self.state = (self.state @ self.drift + action.float().mean(-1, keepdim=True)).tanh()
        return self.state, self.state.mean(-1), (self.state[:, 0] > 0.99).float()


# --- proximal policy optimization ---------------------------------------------------------------------------------------------

class RolloutStorage:
    def __init__(self, steps, worlds, observations, actions):
        zeros = lambda *shape: torch.zeros(steps, worlds, *shape, device=cuda)
        self.observations, self.actions, self.log_probs = zeros(observations), zeros(actions), zeros()
        self.rewards, self.dones, self.values, self.advantages, self.returns = (zeros() for _ in range(5))
        self.at = 0

    def add(self, **items):
        for name, value in items.items():
            getattr(self, name)[self.at].copy_(value)
        self.at += 1

    def finish(self, last_value, gamma=0.99, lam=0.95):
        advantage = 0
        for t in reversed(range(len(self.rewards))):
            following = last_value if t == len(self.rewards) - 1 else self.values[t + 1]
            alive = 1.0 - self.dones[t]
            advantage = self.rewards[t] + alive * gamma * following - self.values[t] + alive * gamma * lam * advantage
            self.returns[t] = advantage + self.values[t]
        self.advantages.copy_(self.returns - self.values)
        self.at = 0

    def minibatches(self, count):
        flat = {name: value.flatten(0, 1) for name, value in self.tensors().items()}
        for rows in torch.randperm(len(flat["values"])).to(cuda).chunk(count):
            yield {name: value[rows] for name, value in flat.items()}, rows

    def tensors(self):
        return {name: value for name, value in vars(self).items() if isinstance(value, torch.Tensor)}


class ActorCritic(nn.Module):
    def __init__(self, observations=64, actions=12):
        super().__init__()
        self.actor, self.critic = mlp(observations, 512, 256, actions), mlp(observations, 512, 256, 1)
        self.log_std = nn.Parameter(torch.zeros(actions))

    def policy(self, observed):
        return Independent(Normal(self.actor(observed), self.log_std.exp(), validate_args=False), 1, validate_args=False)


def ppo_many_worlds(record):
    """Worlds are simulated on the device; a rollout is learned in two epochs of four minibatches."""
    worlds, net = DeviceWorlds(512), ActorCritic().to(cuda)
    storage = RolloutStorage(16, 512, 64, 12)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-4)
    record.watch([net], [optimizer])
    record.hold("input", lambda: [storage.tensors(), worlds.state])
    record.hold("open", lambda: [worlds.drift])
    observed, step = worlds.state, 0
    for iteration in range(3):
        with torch.no_grad(), record.free_choice():
            for _ in range(16):
                policy = net.policy(observed)
                action = policy.mean + torch.randn_like(policy.mean) * net.log_std.exp()
                following, reward, done = worlds.step(action)
                record.note("input", [following])
                storage.add(observations=observed, actions=action, log_probs=policy.log_prob(action), rewards=reward, dones=done,
                            values=net.critic(observed).squeeze(-1))
                observed = following
            storage.finish(net.critic(observed).squeeze(-1))
        for _ in range(2):
            for batch, rows in storage.minibatches(4):
                policy = net.policy(batch["observations"])
                ratio = (policy.log_prob(batch["actions"]) - batch["log_probs"]).exp()
                advantages = (batch["advantages"] - batch["advantages"].mean()) / (batch["advantages"].std() + 1e-8)
                surrogate = torch.max(-advantages * ratio, -advantages * ratio.clamp(0.8, 1.2)).mean()
                value_loss = F.mse_loss(net.critic(batch["observations"]).squeeze(-1), batch["returns"])
                loss = surrogate + value_loss - 0.005 * policy.entropy().mean()
                record.take("fwd", step, (batch, rows, advantages))
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                record.take("bwd", step, (batch, rows, advantages))
                optimizer.step()
                record.take("step", step, (batch, rows, advantages))
                step += 1


# --- replayed transitions -----------------------------------------------------------------------------------------------------

class ReplayBuffer:
    def __init__(self, capacity, observations, actions):
        self.capacity, self.at, self.full = capacity, 0, False
        self.obs, self.next_obs = (torch.zeros(capacity, observations, device=cuda) for _ in range(2))
        self.act, self.rew, self.done = (torch.zeros(capacity, n, device=cuda) for n in (actions, 1, 1))

    def add(self, obs, act, rew, next_obs, done):
        rows = torch.arange(self.at, self.at + len(obs)) % self.capacity
        for kept, new in ((self.obs, obs), (self.act, act), (self.rew, rew), (self.next_obs, next_obs), (self.done, done)):
            kept[rows.to(cuda)] = new
        self.full |= self.at + len(obs) >= self.capacity
        self.at = (self.at + len(obs)) % self.capacity

    def sample(self, count):
        rows = torch.randint(self.capacity if self.full else self.at, (count,), device=cuda)
        return self.obs[rows], self.act[rows], self.rew[rows], self.next_obs[rows], self.done[rows]


class SoftActor(nn.Module):
    def __init__(self, observations=64, actions=8, width=512):
        super().__init__()
        self.trunk = mlp(observations, width, width, last=nn.ELU())
        self.mean, self.log_std = nn.Linear(width, actions), nn.Linear(width, actions)

    def forward(self, obs):
        h = self.trunk(obs)
        normal = Normal(self.mean(h), self.log_std(h).clamp(-5, 2).exp(), validate_args=False)
        raw = normal.rsample()
        action = raw.tanh()
        return action, (normal.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)).sum(1, keepdim=True)


def soft_actor_critic(record):
    """Twin critics with slow copies, a learned temperature, a replay buffer on the device."""
    actor, critics = SoftActor().to(cuda), nn.ModuleList(mlp(72, 512, 512, 1) for _ in range(2)).to(cuda)
    targets = copy.deepcopy(critics).requires_grad_(False)
    log_alpha = torch.zeros(1, requires_grad=True, device=cuda)
    q_optimizer, actor_optimizer = torch.optim.Adam(critics.parameters(), lr=1e-3), torch.optim.Adam(actor.parameters(), lr=3e-4)
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)
    replay, obs = ReplayBuffer(4096, 64, 8), torch.rand(64, 64).to(cuda)
    record.watch([actor, critics, targets], [q_optimizer, actor_optimizer, alpha_optimizer])
    record.hold("input", lambda: [replay.obs, replay.next_obs, replay.act, replay.rew, replay.done, obs])
    record.hold("parameter", lambda: [log_alpha])
    record.hold("gradient", lambda: [log_alpha.grad])
    for step in range(6):
        with torch.no_grad(), record.free_choice():
            act = actor(obs)[0]
        next_obs, rew, done = torch.rand(64, 64).to(cuda), torch.randn(64, 1).to(cuda), torch.zeros(64, 1).to(cuda)
        replay.add(obs, act, rew, next_obs, done)
        record.note("input", [rew, done])
        obs = next_obs
        batch = replay.sample(256)
        b_obs, b_act, b_rew, b_next, b_done = batch
        with torch.no_grad(), record.free_choice():
            next_act, next_logp = actor(b_next)
            pair = torch.cat([b_next, next_act], 1)
            q_next = torch.min(targets[0](pair), targets[1](pair)) - log_alpha.exp() * next_logp
            goal = b_rew + (1 - b_done) * 0.99 * q_next
        pair = torch.cat([b_obs, b_act], 1)
        q_loss = sum(F.mse_loss(q(pair), goal) for q in critics)
        record.take("qfwd", step, (batch, pair))
        q_optimizer.zero_grad()
        q_loss.backward()
        q_optimizer.step()
        record.take("qstep", step, (batch, pair))
        for p in critics.parameters():
            p.requires_grad_(False)
        new_act, logp = actor(b_obs)
        actor_loss = (log_alpha.detach().exp() * logp - torch.min(*(q(torch.cat([b_obs, new_act], 1)) for q in critics))).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        record.take("abwd", step, (batch, pair))
        actor_optimizer.step()
        for p in critics.parameters():
            p.requires_grad_(True)
        alpha_loss = -(log_alpha * (logp.detach() - 8)).mean()
        alpha_optimizer.zero_grad()
        alpha_loss.backward()
        alpha_optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(targets.parameters(), critics.parameters()):
                mine.data.mul_(0.995).add_(theirs.data, alpha=0.005)
        record.take("step", step, (batch, pair))


# --- one network for actor and critic -----------------------------------------------------------------------------------------

class RecurrentAgent(nn.Module):
    def __init__(self, actions=6):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Flatten(),
                                  nn.Linear(64 * 36, 256))
        self.cell = nn.LSTMCell(256, 256)
        self.policy, self.value = nn.Linear(256, actions), nn.Linear(256, 1)

    def forward(self, frames, state):
        h, c = self.cell(F.relu(self.conv(frames)), state)
        return Categorical(logits=self.policy(h), validate_args=False), self.value(h).squeeze(-1), (h, c)


def a2c_with_memory(record):
    """Gradients go through five acts; the cell's state is carried on from rollout to rollout, detached; RMSprop."""
    agent, worlds = RecurrentAgent().to(cuda), 16
    optimizer = torch.optim.RMSprop(agent.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
    record.watch([agent], [optimizer])
    state = tuple(torch.zeros(worlds, 256, device=cuda) for _ in range(2))
    record.note("open", state)
    record.hold("open", lambda: state)
    frames = torch.rand(worlds, 1, 64, 64).to(cuda)
    record.hold("input", lambda: [frames])
    for step in range(5):
        state = tuple(s.detach() for s in state)
        log_probs, values, entropies, rewards, seen = [], [], [], [], []
        for _ in range(5):
            policy, value, state = agent(frames, state)
            action = policy.sample()
            log_probs.append(policy.log_prob(action))
            values.append(value)
            entropies.append(policy.entropy())
            seen.append(frames)
            action.cpu()
            frames, reward = torch.rand(worlds, 1, 64, 64).to(cuda), torch.randn(worlds).to(cuda)
            rewards.append(reward)
        with torch.no_grad(), record.free_choice():
            running = agent(frames, state)[1]
            returns = []
            for reward in reversed(rewards):
                running = reward + 0.99 * running
                returns.insert(0, running)
            returns = torch.stack(returns)
        advantages = returns - torch.stack(values)
        loss = -(torch.stack(log_probs) * advantages.detach()).mean() + 0.5 * advantages.pow(2).mean()
        loss = loss - 0.01 * torch.stack(entropies).mean()
        batch = (seen, rewards, returns)
        record.take("fwd", step, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        record.take("bwd", step, batch)
        optimizer.step()
        record.take("step", step, batch)


# --- a model of the world -----------------------------------------------------------------------------------------------------

@dataclass
class Latent:
    deter: torch.Tensor
    stoch: torch.Tensor

    def cat(self):
        return torch.cat([self.deter, self.stoch], -1)

    def detach(self):
        return Latent(self.deter.detach(), self.stoch.detach())


class WorldModel(nn.Module):
    def __init__(self, actions=4, deter=256, stoch=32):
        super().__init__()
        self.deter, self.stoch, feat = deter, stoch, deter + stoch
        self.encoder = nn.Sequential(nn.Conv2d(3, 32, 4, 2), nn.ELU(), nn.Conv2d(32, 64, 4, 2), nn.ELU(), nn.Conv2d(64, 64, 4, 2), nn.ELU(),
                                     nn.Flatten(), nn.Linear(64 * 4, 256))
        self.cell, self.pre = nn.GRUCell(256, deter), mlp(stoch + actions, 256, last=nn.ELU())
        self.prior, self.posterior = mlp(deter, 256, 2 * stoch), mlp(deter + 256, 256, 2 * stoch)
        self.decoder = nn.Sequential(nn.Linear(feat, 256), nn.Unflatten(1, (256, 1, 1)), nn.ConvTranspose2d(256, 64, 5, 2), nn.ELU(),
                                     nn.ConvTranspose2d(64, 32, 4, 3), nn.ELU(), nn.ConvTranspose2d(32, 3, 8, 2))
        self.reward = mlp(feat, 256, 1)

    def start(self, rows):
        return Latent(torch.zeros(rows, self.deter, device=cuda), torch.zeros(rows, self.stoch, device=cuda))

    def spread(self, params):
        mean, std = params.chunk(2, -1)
        return Normal(mean, F.softplus(std) + 0.1, validate_args=False)

    def imagine(self, state, action):
        deter = self.cell(self.pre(torch.cat([state.stoch, action], -1)), state.deter)
        prior = self.spread(self.prior(deter))
        return Latent(deter, prior.rsample()), prior

    def observe(self, state, action, embedded):
        imagined, prior = self.imagine(state, action)
        posterior = self.spread(self.posterior(torch.cat([imagined.deter, embedded], -1)))
        return Latent(imagined.deter, posterior.rsample()), prior, posterior


def dreamer_world_model(record):
    """The world model learns from sequences; actor and critic learn in what it imagines; three optimizers."""
    world, actor, critic = WorldModel().to(cuda), mlp(288, 256, 4, last=nn.Tanh()).to(cuda), mlp(288, 256, 1).to(cuda)
    optimizers = [torch.optim.Adam(m.parameters(), lr=lr) for m, lr in ((world, 6e-4), (actor, 8e-5), (critic, 8e-5))]
    record.watch([world, actor, critic], optimizers)
    for step in range(4):
        frames, actions, rewards = (t.to(cuda) for t in (torch.rand(8, 8, 3, 32, 32), torch.randn(8, 8, 4), torch.randn(8, 8)))
        wanted = F.interpolate(frames.flatten(0, 1), (38, 38))
        batch = (frames, actions, rewards, wanted)
        embedded = world.encoder(frames.flatten(0, 1)).unflatten(0, (8, 8))
        state, states, divergence = world.start(8), [], 0
        for t in range(8):
            state, prior, posterior = world.observe(state, actions[:, t], embedded[:, t])
            states.append(state)
            divergence = divergence + torch.distributions.kl_divergence(posterior, prior).sum(-1).mean()
        feats = torch.stack([s.cat() for s in states], 1).flatten(0, 1)
        rebuilt = world.decoder(feats)
        world_loss = F.mse_loss(rebuilt, wanted) + divergence / 8
        world_loss = world_loss + F.mse_loss(world.reward(feats).squeeze(-1), rewards.flatten())
        record.take("world", step, batch)
        optimizers[0].zero_grad()
        world_loss.backward()
        optimizers[0].step()
        record.take("wstep", step, batch)
        state = Latent(*(torch.cat([getattr(s, name) for s in states]).detach() for name in ("deter", "stoch")))
        imagined = []
        for _ in range(5):
            state, _ = world.imagine(state, actor(state.detach().cat()))
            imagined.append(state.cat())
        imagined = torch.stack(imagined)
        value, reward = critic(imagined).squeeze(-1), world.reward(imagined).squeeze(-1)
        actor_loss = -(reward + 0.99 * value).mean()
        optimizers[1].zero_grad()
        actor_loss.backward()
        nn.utils.clip_grad_norm_(actor.parameters(), 100)
        record.take("actor", step, batch)
        optimizers[1].step()
        goal = (reward[:-1] + 0.99 * value[1:]).detach()
        critic_loss = F.mse_loss(critic(imagined[:-1].detach()).squeeze(-1), goal)
        optimizers[2].zero_grad()
        critic_loss.backward()
        record.take("critic", step, batch)
        optimizers[2].step()
        record.take("step", step, batch)
