"""Training: pretraining on random play, the reference model, the trainer and its checkpoints."""
