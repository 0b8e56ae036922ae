"""The error of a wrong value, and the check that raises it."""


class ConfigError(ValueError):
    """A key or value of the configuration is invalid. The message names it and the rule."""


def require(holds: bool, key: str, value: object, rule: str) -> None:
    """Raise ConfigError, with the key, the value and the rule, unless the rule holds."""
    if not holds:
        raise ConfigError(f"{key}={value!r}: {rule}")
