"""Train a language model with TRL to call the tool of an environment: `python examples/trl/echo.py --max_steps 100`.

It has the shape of TRL's own scripts for environments. Lines with a number are the three that differ from them.
`--env_host` takes any name of an environment, a URL too. Every option of TRL's GRPOConfig is one of this program.
"""

from dataclasses import dataclass
from typing import Any

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer, TrlParser

from openenv.integrations.trl import as_environment_factory  # 1: instead of the package of one environment

PROMPT = "Send the environment a message that is as long as you can make it."


@dataclass
class ScriptArguments:
    """What the script takes beside the options of GRPOConfig."""

    model: str = "Qwen/Qwen3-0.6B"
    env_host: str = "echo"  # 2: a name, instead of the URL of a server that runs


def reward_func(environments: list[Any], **_: Any) -> list[float]:
    """The reward of each episode."""
    return [env.reward for env in environments]


def main() -> None:
    """Train as the command line says."""
    script, args = TrlParser((ScriptArguments, GRPOConfig)).parse_args_and_config()
    trainer = GRPOTrainer(
        model=script.model,
        train_dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": PROMPT}]] * 1024}),
        reward_funcs=reward_func,
        args=args,
        environment_factory=as_environment_factory(script.env_host),  # 3: instead of a class that wraps its client
    )
    trainer.train()
    trainer.save_model(args.output_dir)


if __name__ == "__main__":
    main()
