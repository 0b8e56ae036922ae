"""`grpo_utils`, as the tutorial names `openenv.grpo_utils`."""

import sys

import openenv.grpo_utils

sys.modules[__name__] = openenv.grpo_utils
