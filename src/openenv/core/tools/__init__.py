"""Tools for environments: repositories of a Gitea server, and Python code of an agent."""

from openenv.core.tools.git_server_client import GitServerClient, RepoInfo
from openenv.core.tools.local_python_executor import PyExecutor

__all__ = ["GitServerClient", "PyExecutor", "RepoInfo"]
