"""Samples replies from the model: one forward pass per distinct context, with the log-probability of each token."""

import random
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from openenv.policies.prompts import ChatMessage
from openenv.rl.algorithm.segment import Segment
from openenv.rl.config import Precision
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.drawing import chosen
from openenv.rl.generators.replies import CapturedReplies, Reply
from openenv.rl.generators.static_decoder import can_decode
from openenv.rl.models.chat import Chat
from openenv.rl.models.devices import autocast
from openenv.rl.models.images import Images, image_inputs
from openenv.rl.models.language_model import accepts, kept_logits, next_token_logits, row_count
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.rl.models.reply_masks import Mask, ReplyState, masked
from openenv.rl.models.shared_prefix import can_share, prefix_cache, shared_length
from openenv.rl.models.weight_store import WeightStore
from openenv.text.constraints import ReplyConstraint
from openenv.text.content import Content, image_part

Context = TypeVar("Context")
_Context = tuple[TokenIds, Images, ReplyConstraint | None]
"""What a reply depends on: its prompt, the images in it, and what it may be."""

_MAX_DISTANCE = 0.1  # nats a token: bfloat16 rounds by less, a wrong position or a lost state costs more
_OTHERS = "Use a model of another class, such as Qwen3, Llama or Gemma."
_TRIAL_IMAGE = [[(8 * row + column) % 256 for column in range(64)] for row in range(48)]


class UnsupportedModel(ValueError):
    """The generator cannot sample from a model of this class."""


class Generator(BaseGenerator):
    """A copy of the model in this process that samples replies. Rows with equal contexts share one forward pass."""

    def __init__(
        self,
        model: PreTrainedModel,
        chat: Chat,
        *,
        max_new_tokens: int,
        precision: Precision = "float32",
        store: WeightStore | None = None,
        temperature: float = 1.0,
        tokens_at_once: int | None = None,
    ) -> None:
        """tokens_at_once: most tokens of prompts and replies, padding included, in one batch; None: no limit."""
        super().__init__(chat, max_new_tokens=max_new_tokens, store=store, temperature=temperature)
        self.model = model.train(False)
        self.precision = precision
        self._tokens_at_once = tokens_at_once
        self._cache_parameter = cache_parameter(model)
        self._shares = can_share(model)
        captures = model.device.type == "cuda" and can_decode(model)
        self._captured = CapturedReplies(model, chat, precision) if captures else None
        """Writes all tokens of replies but the first."""
        self._reply_masks = chat.reply_masks(model.config.get_text_config().vocab_size)

    @torch.no_grad()
    def generate(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[random.Random],
        images: Sequence[Images] = (),
        constraints: Sequence[ReplyConstraint | None] = (),
    ) -> list[Segment]:
        """As `BaseGenerator.generate`. streams: each gives one number for each token that is drawn."""
        if self.store is not None:
            self.policy_version = self.store.load_newer(self.model, self.policy_version)
        rows = [Reply(stream) for stream in streams]
        none = [None] * len(prompts)
        shown = list(zip(prompts, images or [()] * len(prompts), constraints or none, strict=True))
        for part in self._parts([len(prompt) for prompt in prompts]) if rows else []:
            contexts: dict[_Context, int] = {}
            for number in part:
                rows[number].context = contexts.setdefault(shown[number], len(contexts))
            self._write([rows[number] for number in part], list(contexts))
        return [
            self._segment(prompt, row.token_ids, row.logprobs, seen, row.masks)
            for (prompt, seen, _), row in zip(shown, rows, strict=True)
        ]

    @torch.no_grad()
    def require_agreement(self) -> None:
        """Raise UnsupportedModel unless sampled tokens have the log-probabilities of one forward pass without a cache.

        Prompts of different lengths are tried, so that padding and the cache of the model's class are covered; one has
        an image if the model reads images.
        """
        name = type(self.model).__name__
        contents: list[Content] = ["one", "one two three"]
        if self.chat.image_reader is not None and self.chat.template.has_images:
            contents.append([{"type": "text", "text": "one "}, image_part("trial", _TRIAL_IMAGE)])
        conversations: list[list[ChatMessage]] = [[{"role": "user", "content": content}] for content in contents]
        try:
            streams = [random.Random(number) for number in range(len(contents))]
            segments = self.answer(conversations, streams, self.chat)
        except (
            AttributeError,
            IndexError,
            KeyError,
            NotImplementedError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            raise UnsupportedModel(
                f"{name} cannot generate with the caches of transformers: {error!r}. {_OTHERS}"
            ) from error
        for segment in segments:
            ids = torch.from_numpy(segment.token_ids).long()[None]
            is_sampled = torch.from_numpy(segment.sampled)[1:]
            columns = is_sampled.nonzero()[:, 0]
            with autocast(self.precision, self.model.device):
                logits = next_token_logits(self.model, ids, torch.zeros_like(columns), columns, [segment.images])
            logprobs = torch.log_softmax(logits.cpu(), dim=-1).gather(1, ids[0, columns + 1][:, None])[:, 0]
            recorded = torch.from_numpy(segment.logprobs)[1:][is_sampled]
            distance = float((logprobs - recorded).abs().mean())
            if distance > _MAX_DISTANCE:
                raise UnsupportedModel(
                    f"{name} is {distance:.2g} nats a token away from its own forward pass when it generates with "
                    f"padding and a cache. {_OTHERS}"
                )

    def _parts(self, lengths: Sequence[int]) -> list[list[int]]:
        """The numbers of the replies that are written together, those to prompts of like length side by side.

        lengths: of their prompts.
        """
        if self._tokens_at_once is None:
            return [list(range(len(lengths)))]
        waiting = sorted(range(len(lengths)), key=lengths.__getitem__)
        parts = []
        while waiting:
            size = max(1, self._tokens_at_once // (lengths[waiting[-1]] + self.max_new_tokens))
            parts.append(waiting[-size:])
            del waiting[-size:]
        return parts

    def _write(self, rows: list[Reply], contexts: list[_Context]) -> None:
        contexts = _padded_contexts(contexts)
        prompts = [prompt for prompt, *_ in contexts]
        input_ids, mask, cache = self._begun(prompts, has_images=any(images for _, images, _ in contexts))
        shown, offsets = self._shown(input_ids, mask, [images for _, images, _ in contexts])
        states = [self._reply_masks.start(constraint) for *_, constraint in contexts]
        for position in range(self.max_new_tokens):
            logits = self._forward(input_ids, mask, cache, offsets, shown if position == 0 else {})
            masks = [None if state is None else state.mask for state in states]
            self._sample(rows, torch.log_softmax(masked(logits, masks), dim=-1), masks)
            room = self.max_new_tokens - position - 1
            following = _Following(states)
            rows = [row for row in rows if room and not row.has_ended(self.chat)]
            rows = [row for row in rows if not row.takes_its_end(self.chat, following.of(row))]
            if not rows:
                return
            if self._captured is not None and offsets is None:
                after = [following.of(row) for row in rows]
                self._captured.write(rows, after, cache, mask, room=room, temperature=self.temperature)
                return
            parents, tokens = self._branch(rows)
            states = [following.state(*pair) for pair in zip(parents.tolist(), tokens.tolist(), strict=True)]
            cache.reorder_cache(parents)
            input_ids = tokens[:, None]
            mask = torch.cat([mask[parents], torch.ones_like(input_ids)], dim=1)
            offsets = None if offsets is None else offsets[parents]

    def _begun(self, prompts: list[TokenIds], *, has_images: bool) -> tuple[Tensor, Tensor, Any]:
        """The ids that are left to run of each prompt, their mask, and the cache, with the tokens that all share."""
        shared = 0 if has_images or not self._shares else shared_length(prompts, min(map(len, prompts)) - 1)
        input_ids, mask = self._left_padded([prompt[shared:] for prompt in prompts])
        if not shared:
            return input_ids, mask, DynamicCache(config=self.model.config)
        prefix = torch.tensor([prompts[0][:shared]], device=input_ids.device)
        with autocast(self.precision, self.model.device):
            cache = prefix_cache(self.model, prefix, len(prompts))
        return input_ids, torch.cat([mask.new_ones(len(prompts), shared), mask], dim=1), cache

    def _shown(self, input_ids: Tensor, mask: Tensor, images: list[Images]) -> tuple[dict[str, Any], Tensor | None]:
        """The inputs of the images of contexts, and the offsets of the positions after them; None without images."""
        if not any(images):
            return {}, None
        with autocast(self.precision, self.model.device):
            return image_inputs(self.model, input_ids, images, mask)

    def _forward(
        self, input_ids: Tensor, mask: Tensor, cache: Any, offsets: Tensor | None, shown: dict[str, Any]
    ) -> Tensor:
        """Logits of the next token, [contexts, vocabulary], in float32. The cache grows by input_ids.

        offsets: of the positions, [contexts, 1]. shown: the inputs of images in input_ids, with their positions.
        """
        inputs: dict[str, Any] = {"input_ids": input_ids, "use_cache": True, self._cache_parameter: cache}
        if not mask.all():  # otherwise the causal mask suffices, which is also what the trainer uses
            inputs["attention_mask"] = mask
        if accepts(self.model, "position_ids"):
            positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -input_ids.shape[1] :]
            inputs["position_ids"] = positions if offsets is None else (positions + offsets).expand(3, -1, -1)
        inputs |= shown
        with autocast(self.precision, self.model.device):
            return kept_logits(self.model, 1, **inputs)[:, -1].float()

    def _sample(self, rows: list[Reply], logprobs: Tensor, masks: Sequence[Mask | None]) -> None:
        """Append a token to each row."""
        contexts = torch.tensor([row.context for row in rows], device=logprobs.device)
        numbers = None
        if self.temperature:
            numbers = torch.tensor([row.stream.random() for row in rows], dtype=torch.float64).to(logprobs.device)
        tokens = chosen(logprobs, contexts, numbers, self.temperature)
        for row, token, logprob in zip(rows, tokens.tolist(), logprobs[contexts, tokens].tolist(), strict=True):
            row.add(token, logprob, masks[row.context])

    def _branch(self, rows: list[Reply]) -> tuple[Tensor, Tensor]:
        """The distinct continuations of the current contexts: each one's parent context and its new token."""
        numbers: dict[tuple[int, int], int] = {}
        for row in rows:
            row.context = numbers.setdefault((row.context, row.token_ids[-1]), len(numbers))
        pairs = torch.tensor(_padded_contexts(list(numbers)), device=self.model.device)
        return pairs[:, 0], pairs[:, 1]

    def _left_padded(self, contexts: list[TokenIds]) -> tuple[Tensor, Tensor]:
        width = max(map(len, contexts))
        gaps = [width - len(context) for context in contexts]
        ids = [(self.chat.pad_id,) * gap + context for gap, context in zip(gaps, contexts, strict=True)]
        mask = [(0,) * gap + (1,) * (width - gap) for gap in gaps]
        return torch.tensor(ids, device=self.model.device), torch.tensor(mask, device=self.model.device)


class _Following:
    """The states of replies after one more token, each made once."""

    def __init__(self, states: Sequence[ReplyState | None]) -> None:
        """states: of the contexts before it; None: nothing restricts the reply."""
        self._states = states
        self._known: dict[tuple[int, int], ReplyState] = {}

    def of(self, row: Reply) -> ReplyState | None:
        """The state of a reply after its last token, which went on from these contexts."""
        return self.state(row.context, row.token_ids[-1])

    def state(self, context: int, token: int) -> ReplyState | None:
        """The state of a context after a token."""
        before = self._states[context]
        if before is None:
            return None
        if (context, token) not in self._known:
            self._known[context, token] = before.after(token)
        return self._known[context, token]


def cache_parameter(model: PreTrainedModel) -> str:
    """The parameter of the model's forward that takes the cache. Raises UnsupportedModel if there is none."""
    for name in ("past_key_values", "cache_params"):
        if accepts(model, name):
            return name
    raise UnsupportedModel(f"{type(model).__name__} keeps its state outside the caches of transformers. {_OTHERS}")


def _padded_contexts(contexts: list[Context]) -> list[Context]:
    """The contexts, padded with copies of the first to a row count that recurs. No row uses the copies."""
    return contexts + contexts[:1] * (row_count(len(contexts)) - len(contexts))
