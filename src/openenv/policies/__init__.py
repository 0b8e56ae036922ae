"""Policies: whatever chooses an action for an observation."""

from openenv.policies.base import ActsOnObservations, Choice, Policy
from openenv.policies.blackjack import BlackjackChartPolicy
from openenv.policies.catch import CatchPolicy
from openenv.policies.constant import ConstantPolicy
from openenv.policies.language_model import ChatEndpoint, Complete, CompletionFailed, LanguageModelPolicy, Message
from openenv.policies.learning import LearningPolicy
from openenv.policies.random import RandomPolicy, RandomReplyPolicy
from openenv.policies.registry import POLICIES, make_policy

__all__ = [
    "POLICIES",
    "ActsOnObservations",
    "BlackjackChartPolicy",
    "CatchPolicy",
    "ChatEndpoint",
    "Choice",
    "Complete",
    "CompletionFailed",
    "ConstantPolicy",
    "LanguageModelPolicy",
    "LearningPolicy",
    "Message",
    "Policy",
    "RandomPolicy",
    "RandomReplyPolicy",
    "make_policy",
]
