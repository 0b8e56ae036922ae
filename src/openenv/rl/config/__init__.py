"""The configuration of a training run: nested frozen dataclasses, with a description of every key.

`openenv.rl.config_file` reads them from YAML.
"""

from openenv.rl.config.learning import (
    KLName,
    LossConfig,
    LossName,
    OptimizerConfig,
    PretrainConfig,
    ReplayBufferConfig,
    RewardConfig,
    TrainerConfig,
    TrainingConfig,
    WarmStartConfig,
)
from openenv.rl.config.models import (
    LoraSettings,
    ModelConfig,
    Precision,
    WeightType,
)
from openenv.rl.config.playing import (
    ConversationConfig,
    CurriculumConfig,
    EnvConfig,
    SelfPlayConfig,
)
from openenv.rl.config.rules import (
    ConfigError,
    require,
)
from openenv.rl.config.run import (
    AdvantageName,
    CheckpointConfig,
    Config,
    TrackerName,
)

__all__ = [
    "AdvantageName",
    "CheckpointConfig",
    "Config",
    "ConfigError",
    "ConversationConfig",
    "CurriculumConfig",
    "EnvConfig",
    "KLName",
    "LoraSettings",
    "LossConfig",
    "LossName",
    "ModelConfig",
    "OptimizerConfig",
    "Precision",
    "PretrainConfig",
    "ReplayBufferConfig",
    "RewardConfig",
    "SelfPlayConfig",
    "TrackerName",
    "TrainerConfig",
    "TrainingConfig",
    "WarmStartConfig",
    "WeightType",
    "require",
]
