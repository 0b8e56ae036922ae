"""Tasks on real git repositories: branch, merge, rebase, revert, bisect, push, and more."""

from openenv.envs.git_env.client import GitEnv
from openenv.envs.git_env.models import GitAction, GitObservation, GitState
from openenv.envs.git_env.text import GitText

__all__ = ["GitAction", "GitEnv", "GitObservation", "GitState", "GitText"]
