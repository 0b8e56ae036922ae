"""The older name of `openenv.core`: the same package, module for module and object for object."""

import warnings

from openenv.compat.aliases import alias

warnings.warn(
    "openenv_core is the older name of openenv.core: import openenv.core instead", DeprecationWarning, stacklevel=2
)
alias("openenv_core", "openenv.core")
