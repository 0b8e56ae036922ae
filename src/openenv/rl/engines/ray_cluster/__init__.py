"""The engine on a Ray cluster: rollout workers, generators and the trainer's processes are actors."""
