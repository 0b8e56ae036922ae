"""Checks conformance and quality of an environment through its server alone."""

from openenv.evaluation.quality.suite import CHECKS, Check, Level, check_environment, check_url
from openenv.evaluation.quality.target import CheckResult, CheckRow, Status

__all__ = ["CHECKS", "Check", "CheckResult", "CheckRow", "Level", "Status", "check_environment", "check_url"]
