"""Environments with a fault that pays: each is what an author may write by mistake."""

from random import Random
from typing import Any, Literal

from openenv import Action, Environment, Observation, State

WORDS = ("cat", "dog", "owl", "fox")


class Reply(Action):
    text: str


class Question(Observation):
    question: str


class Asks(Environment[Reply, Question, State]):
    """Ask once for one of four words, which the observation names by its number."""

    execution = "inline"
    success_return = 1.0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Question:
        self.place = Random(seed).randrange(4)
        self.answer = WORDS[self.place]
        return self.asked()

    def asked(self) -> Question:
        return Question(question=f"Of cat, dog, owl and fox, which is number {self.place + 1}?")

    def step(self, action: Reply, timeout_s: float | None = None, **kwargs: Any) -> Question:
        return Question(question="", reward=float(self.is_right(action.text)), done=True)

    def is_right(self, text: str) -> bool:
        return text == self.answer

    @property
    def state(self) -> State:
        return State()


class TakesBeginnings(Asks):
    """An empty reply begins every answer."""

    def is_right(self, text: str) -> bool:
        return self.answer.startswith(text)


class TakesAnythingAbout(Asks):
    """A reply that has all four words has the right one."""

    def is_right(self, text: str) -> bool:
        return self.answer in text


class AlwaysTheSame(Asks):
    """The seed decides nothing."""

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Question:
        super().reset()
        self.answer = "owl"
        return Question(question="Which animal do I think of?")


class ShowsTheAnswer(Asks):
    """Metadata has what no prompt shows."""

    def asked(self) -> Question:
        return Question(question="Which animal do I think of?", metadata={"checks": [{"expected": self.answer}]})


class Move(Action):
    to: Literal["left", "right"]


class Place(Observation):
    field: int
    goal: int


class Walks(Environment[Move, Place, State]):
    """Five fields in a row. One of the ends is the goal, which must be reached in six steps."""

    execution = "inline"
    success_return = 1.0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Place:
        self.goal, self.field, self.left = Random(seed).choice([0, 4]), 2, 6
        return Place(field=self.field, goal=self.goal)

    def step(self, action: Move, timeout_s: float | None = None, **kwargs: Any) -> Place:
        self.field = min(4, max(0, self.field + (1 if action.to == "right" else -1)))
        self.left -= 1
        done = self.field == self.goal or not self.left
        return Place(field=self.field, goal=self.goal, reward=self.reward_here(), done=done)

    def reward_here(self) -> float:
        return float(self.field == self.goal)

    @property
    def state(self) -> State:
        return State()


class PaysAgain(Walks):
    """The coin at the other end lies there again each time."""

    def reward_here(self) -> float:
        return 0.6 if self.field == 4 - self.goal else super().reward_here()


class NeverArrives(Walks):
    """The goals lie behind walls."""

    def step(self, action: Move, timeout_s: float | None = None, **kwargs: Any) -> Place:
        self.field = min(3, max(1, self.field + (1 if action.to == "right" else -1)))
        self.left -= 1
        return Place(field=self.field, goal=self.goal, reward=self.reward_here(), done=not self.left)


class PaysNothing(Walks):
    """Every reward is 0."""

    def reward_here(self) -> float:
        return 0.0


class Order(Action):
    amount: int


class Account(Observation):
    money: int


class SellsLessThanNothing(Environment[Order, Account, State]):
    """Sell up to what is there, for a coin each: but a negative purchase pays, too."""

    execution = "inline"
    success_return = 1.0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Account:
        self.stock = 1 + Random(seed).randrange(9)
        return Account(money=self.stock)

    def step(self, action: Order, timeout_s: float | None = None, **kwargs: Any) -> Account:
        if action.amount > self.stock:
            return Account(money=0, reward=-1.0, done=True)
        return Account(money=0, reward=abs(action.amount) / self.stock, done=True)

    @property
    def state(self) -> State:
        return State()


class EndsAtOnce(Walks):
    """Every other episode ends with its reset, as a game that the others may end before a seat has acted."""

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Place:
        return super().reset(seed).model_copy(update={"done": not (seed or 0) % 2})


class NeverBegins(Walks):
    """Every episode ends with its reset."""

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Place:
        return super().reset(seed).model_copy(update={"done": True})
