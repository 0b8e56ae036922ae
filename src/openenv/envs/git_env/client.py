"""Client of the git environment."""

from openenv.core.env_client import EnvClient
from openenv.envs.git_env.models import GitAction, GitObservation, GitState


class GitEnv(EnvClient[GitAction, GitObservation, GitState]):
    """Client of one session. `reset` takes `seed`, `kind`, `level` and `max_steps`.

    Example:
        with GitEnv(base_url="http://localhost:8000") as env:
            print(env.reset(seed=3, kind="restore_file").observation.task)
            print(env.step(GitAction(command="git log --oneline --stat")).observation.stdout)
            print(env.step(GitAction(command="finish")).reward)
    """
