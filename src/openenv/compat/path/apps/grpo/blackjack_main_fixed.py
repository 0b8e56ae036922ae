"""`python -m apps.grpo.blackjack_main_fixed --config FILE`, as the tutorial starts a long run: `openenv train FILE`."""

import argparse
import sys

from openenv.cli.main import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train as a YAML file describes: another name of `openenv train`.")
    parser.add_argument("--config", required=True, help="the YAML file")
    sys.argv = ["openenv", "train", parser.parse_args().config]
    main()
