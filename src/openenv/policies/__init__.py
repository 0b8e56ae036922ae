"""Policies: they choose an action for an observation."""

from openenv.policies.base import ActsOnObservations, Choice, Policy
from openenv.policies.baselines import ConstantPolicy, RandomPolicy
from openenv.policies.language_model import ChatEndpoint, Complete, LanguageModelPolicy
from openenv.policies.learning import LearningPolicy
from openenv.policies.prompts import ChatMessage, CompletionFailed, PromptBuilder, SampledReply
from openenv.policies.registry import make_policy, policy_names

__all__ = [
    "ActsOnObservations",
    "ChatEndpoint",
    "ChatMessage",
    "Choice",
    "Complete",
    "CompletionFailed",
    "ConstantPolicy",
    "LanguageModelPolicy",
    "LearningPolicy",
    "Policy",
    "PromptBuilder",
    "RandomPolicy",
    "SampledReply",
    "make_policy",
    "policy_names",
]
