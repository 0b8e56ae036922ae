"""MuJoCo's data as bytes: equal actions after a restored one give equal futures, bit for bit."""

import pickle
import zlib

import mujoco

_FASTEST = 1


def save_data(data: mujoco.MjData) -> bytes:
    """A snapshot of all of it.

    `mjSTATE_INTEGRATION` is not enough: the positions of bodies are computed before each step is integrated, and the
    rewards of Ant and Humanoid are differences of them. `mj_forward` would move them on.
    """
    return zlib.compress(pickle.dumps(data), _FASTEST)


def load_data(snapshot: bytes, model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Make `data` what it was. model: equal to the model of the snapshot."""
    mujoco.mj_copyData(data, model, pickle.loads(zlib.decompress(snapshot)))
