"""Three steps of JAX; prints the most that XLA's allocator had in use."""
import jax
import jax.numpy as jnp


@jax.jit
def step(w, x):
    return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)


w, x = jnp.ones((4096, 4096)), jnp.ones((8192, 4096))
for _ in range(3):
    w = step(w, x)
w.block_until_ready()
print(jax.devices()[0].platform, jax.devices()[0].memory_stats()["peak_bytes_in_use"])
