#!/bin/sh
# Codex, a coding agent, plays an episode. Its model and its MCP server are those of the episode.
# CODEX: the program, if it is not on the PATH (npm install @openai/codex).
set -eu
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir "$home/work"
cat > "$home/config.toml" <<END
model = "policy"
model_provider = "episode"
approval_policy = "never"
sandbox_mode = "read-only"
web_search = "disabled"
[model_providers.episode]
name = "episode"
base_url = "$OPENAI_BASE_URL"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[mcp_servers.environment]
url = "$OPENENV_MCP_URL"
default_tools_approval_mode = "approve"
END
cd "$home/work"
CODEX_HOME=$home "${CODEX:-codex}" exec --skip-git-repo-check "$OPENENV_INSTRUCTIONS
$OPENENV_OBSERVATION" < /dev/null
