"""Small models of many architectures, and chat templates in the manner of the published ones."""

from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

TEXT = """Rules: say the word. [INST] [/INST] word red green blue none, once. hello <|>_/[]()\'"-?!.:;,
the dealer shows a ten and you hold an eight and a five, hit or stand? think before you reply.
user assistant system tool hit stand blackjack 0 1 2 3 4 5 6 7 8 9 what is shown comes from the table; hello there
User: Assistant: end_header_id start_of_turn model <|im_start|>"""

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# Thinking of turns before the last question is dropped; without thinking a reply begins with an empty one.
CHATML_THINKING = (
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
    "{% endif %}{% endfor %}"
    "{% for m in messages %}{% set content = m.content %}{% if m.role == 'assistant' %}{% set thought = '' %}"
    "{% if '</think>' in content %}{% set thought = content.split('</think>')[0].split('<think>')[-1].strip('\n') %}"
    "{% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}"
    "{% if loop.index0 > ns.last %}{% set content = '<think>\n' + thought + '\n</think>\n\n' + content %}{% endif %}"
    "{% endif %}<|im_start|>{{ m.role }}\n{{ content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)

# A reply begins inside its thinking, which stays in later prompts.
CHATML_KEPT_THINKING = CHATML.replace("<|im_start|>assistant\n{% endif", "<|im_start|>assistant\n<think>\n{% endif")

LLAMA = (
    "<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}"
    "<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)

GEMMA = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "<bos>{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ m.content | trim }}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)

COHERE = (
    "<BOS_TOKEN>{% for m in messages %}<|START_OF_TURN_TOKEN|>"
    "{{ {'user': '<|USER_TOKEN|>', 'assistant': '<|CHATBOT_TOKEN|>', 'system': '<|SYSTEM_TOKEN|>'}[m.role] }}"
    "{{ m.content | trim }}<|END_OF_TURN_TOKEN|>{% endfor %}"
    "{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}"
)

# No end markers, and a space before each reply that the prompt does not have.
PLAIN = (
    "{% for m in messages %}{{ m.role | capitalize }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)

# The end of the user's turn asks for the reply: there is no generation prompt.
INSTRUCT = (
    "<s>{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% elif m.role == 'assistant' %} {{ m.content }}</s>{% else %}{{ raise_exception('roles must alternate') }}"
    "{% endif %}{% endfor %}"
)

# The flag `add_generation_prompt` is not known.
NO_FLAG = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"

TEMPLATES = {
    "chatml": CHATML,
    "chatml thinking": CHATML_THINKING,
    "chatml kept thinking": CHATML_KEPT_THINKING,
    "llama": LLAMA,
    "gemma": GEMMA,
    "cohere": COHERE,
    "plain": PLAIN,
    "instruct": INSTRUCT,
    "no flag": NO_FLAG,
}
"""All of them, by name."""

_ROLES = ["<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>"]
_SPECIAL = [
    "<|endoftext|>",
    *("<|im_start|>", "<|im_end|>"),
    *("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    *("<bos>", "<start_of_turn>", "<end_of_turn>"),
    *("<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", *_ROLES, "<|END_OF_TURN_TOKEN|>"),
    *("<s>", "</s>"),
]
_END = {"llama": "<|eot_id|>", "gemma": "<end_of_turn>", "cohere": "<|END_OF_TURN_TOKEN|>", "instruct": "</s>"}


def _backend() -> Tokenizer:
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator([TEXT] * 4, BpeTrainer(vocab_size=110, show_progress=False))
    backend.add_special_tokens([AddedToken(token, special=True) for token in _SPECIAL])
    backend.add_tokens([AddedToken(token) for token in ("<think>", "</think>")])
    return backend


BACKEND = _backend()
"""A byte-pair tokenizer with the control tokens of all templates; `<think>` and `</think>` are plain added tokens.

Its vocabulary is small, so that a model with random weights often ends its thinking and its reply."""


def small_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """The tokenizer with a template of that name. It has no pad token."""
    backend = Tokenizer.from_str(BACKEND.to_str())
    end = _END.get(template, "<|endoftext|>" if template == "plain" else "<|im_end|>")
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end, chat_template=TEMPLATES[template])


def byte_tokenizer(template: str = "chatml") -> PreTrainedTokenizerFast:
    """A tokenizer that can write every byte, as those of pretrained models can."""
    backend = Tokenizer(BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    marks = ["<|im_start|>", "<|im_end|>"]
    backend.train_from_iterator([], BpeTrainer(special_tokens=marks, initial_alphabet=alphabet))
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", chat_template=TEMPLATES[template])


_SIZES: dict[str, Any] = {
    "vocab_size": BACKEND.get_vocab_size(),
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": None,
    "max_position_embeddings": 1024,
}

ARCHITECTURES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Qwen3": ("qwen3", "chatml thinking", {}),
    "Llama": ("llama", "llama", {"tie_word_embeddings": False}),
    "Gemma2": (
        "gemma2",
        "gemma",
        {
            "final_logit_softcapping": 1.5,
            "attn_logit_softcapping": 2.0,
            "sliding_window": 16,
            "query_pre_attn_scalar": 8,
        },
    ),
    "Gemma3": ("gemma3_text", "gemma", {"sliding_window": 16, "query_pre_attn_scalar": 8}),
    "GPT-2": ("gpt2", "plain", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 1024}),
    "Cohere": ("cohere", "cohere", {"logit_scale": 4.0}),
    "Granite": (
        "granite",
        "chatml kept thinking",
        {"logits_scaling": 0.25, "embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.3},
    ),
    "Qwen3-MoE": (
        "qwen3_moe",
        "chatml",
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1},
    ),
}
"""Model type of transformers, template and settings of each architecture."""

STATEFUL: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Qwen3-Next": (
        "qwen3_next",
        "chatml",
        {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
        },
    ),
    "LFM2": ("lfm2", "chatml", {"layer_types": ["conv", "full_attention"]}),
    "Mamba2": ("mamba2", "plain", {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 2, "chunk_size": 8}),
}
"""The same of architectures with linear attention, convolutions or a state."""


DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
"""The devices of this machine."""


def small_model(name: str, device: str = "cpu") -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """A model of an architecture with random weights on a device, and its tokenizer.

    Fresh matrices are multiplied by 4, so that the model prefers some tokens to others. It likes to end its thinking.
    """
    kind, template, settings = (ARCHITECTURES | STATEFUL)[name]
    tokenizer = small_tokenizer(template)
    ids = {"eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    config = AutoConfig.for_model(kind, **{**_SIZES, **ids, **settings})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        attention = "eager" if device == "cpu" else None  # as `load_model` chooses
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).float().train(False)
        with torch.no_grad():
            for weights in model.parameters():
                if weights.dim() > 1:
                    weights.mul_(4.0)
    scale = getattr(config, "logit_scale", 1.0) / getattr(config, "logits_scaling", 1.0)
    bias = torch.zeros(BACKEND.get_vocab_size(), device=device)
    bias[tokenizer.convert_tokens_to_ids("</think>")] = 3.0 / scale
    model.get_output_embeddings().register_forward_hook(lambda _layer, _inputs, logits: logits + bias)
    return model.to(device), tokenizer
