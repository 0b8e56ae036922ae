"""Run blackjack.yaml from Python: `python examples/grpo_blackjack/train.py`."""

import asyncio
from pathlib import Path

from openenv.rl.reports.report import write_report
from openenv.rl.setup import setup_training


async def main() -> None:
    """Train for 100 steps and write the report."""
    trainer = await setup_training(Path(__file__).with_name("blackjack.yaml"))
    result = await trainer.run(steps=100)
    await trainer.shutdown()
    print(f"{result.steps} steps, win rate in the last batch {result.metrics['win_rate']:.1%}")
    print(f"report: {write_report(result.run_dir)}")


if __name__ == "__main__":
    asyncio.run(main())
