"""Asks a hub for a model before anything waits for it: transformers tries a name that is wrong for 45 seconds."""

from pathlib import Path

from openenv.rl.config import ConfigError
from openenv.rl.config_file import hint_at_models

_LIMIT_S = 10.0
_CONFIG = "config.json"
_BUSY = 429
"""A hub that answers so, or with a higher status, is tried again by what loads the model."""


def require_on_hub(path: str) -> None:
    """Raise ConfigError for a hub id whose model is neither in the cache nor on the hub. Blocks for 10 s at most.

    Nothing is asked for an empty path, a folder or a file.
    """
    from httpx2 import HTTPError  # of the extra `train`, as huggingface_hub is
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError

    if not path or Path(path).exists() or isinstance(try_to_load_from_cache(path, _CONFIG), str):
        return
    try:
        get_hf_file_metadata(hf_hub_url(path, _CONFIG), timeout=_LIMIT_S)
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status >= _BUSY:
            return
        reason = f"the hub has no model of this name that your token may read (HTTP {status})"
    except (HTTPError, OSError) as error:
        reason = f"the hub's cache here does not have it, and the hub is not reached: {_first_line(error)}"
    else:
        return
    raise ConfigError(f"model.path={path!r}: there is no such folder, and {reason}.{hint_at_models(Path(path))}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
