"""Conformance and quality of anyone's environment, seen from outside: through its server alone."""

from openenv.evaluation.quality.findings import Finding, Row, Status
from openenv.evaluation.quality.suite import CHECKS, Check, check_folder, check_url

__all__ = ["CHECKS", "Check", "Finding", "Row", "Status", "check_folder", "check_url"]
