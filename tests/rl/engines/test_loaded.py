"""What processes of a run do without."""

import subprocess
import sys


def test_a_rollout_worker_loads_no_code_of_models() -> None:
    """A run may have many of them, on small machines."""
    code = "import sys, openenv.rl.engines.ray_cluster.rollout_actor; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert {"torch", "tokenizers", "ray"} <= {*loaded}
    assert {"transformers.modeling_utils", "accelerate", "peft", "scipy"}.isdisjoint(loaded)
