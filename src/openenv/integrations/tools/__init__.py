"""Tools for environments: repositories of a Gitea server, and Python code of an agent."""

from openenv.integrations.tools.git_server_client import GitServerClient, RepoInfo
from openenv.integrations.tools.local_python_executor import PyExecutor

__all__ = ["GitServerClient", "PyExecutor", "RepoInfo"]
