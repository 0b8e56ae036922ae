"""What changes in the course of training: the learning rate, the weights of the loss, the floor of the entropy.

progress: the part of training that is done, 0 to 1. All schedules are straight lines.
"""

from openenv.rl.config import LossConfig, OptimizerConfig


def warm_up(config: OptimizerConfig, step_count: int) -> float:
    """The factor that raises the learning rate in the first steps. step_count: steps that were made."""
    return min(1.0, (step_count + 1) / max(1, config.warmup_steps))


def decay(config: OptimizerConfig, progress: float) -> float:
    """The factor that lowers the learning rate late in training."""
    return min(1.0, (1.0 - progress) / max(1e-9, 1.0 - config.decay_from))


def kl_weight(config: LossConfig, progress: float) -> float:
    """The weight of the divergence from the reference model."""
    return config.kl_weight + (config.kl_weight_end - config.kl_weight) * progress


def entropy_weight(config: LossConfig, progress: float) -> float:
    """The weight of the entropy bonus."""
    return config.entropy_weight * (1.0 - progress)


def entropy_floor(config: LossConfig, progress: float) -> float:
    """The least entropy of the actions, as a part of that before the first step."""
    return config.entropy_floor + (config.entropy_floor_end - config.entropy_floor) * progress
