"""MuJoCo's data as bytes: equal actions after a restored one give equal futures, bit for bit."""

import pickle
import zlib

import mujoco
import numpy as np

_FASTEST = 1


def save_data(data: mujoco.MjData) -> bytes:
    """A snapshot of all of it.

    `mjSTATE_INTEGRATION` is not enough: the positions of bodies are computed before each step is integrated, and the
    rewards of Ant and Humanoid are differences of them. `mj_forward` would move them on.
    """
    return zlib.compress(pickle.dumps(data), _FASTEST)


def load_data(snapshot: bytes, model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Make `data` what it was, and the arrays of `model`, which tasks may change, such as the place of a target.

    model: of the same description as the model of the snapshot.
    """
    saved = pickle.loads(zlib.decompress(snapshot))
    for name in dir(model):
        array, wanted = getattr(model, name), getattr(saved.model, name)
        if isinstance(array, np.ndarray) and array.tobytes() != wanted.tobytes():
            array[...] = wanted
    mujoco.mj_copyData(data, model, saved)
