"""Training: pretraining on random play, batches, losses, the reference model, the trainer and its checkpoints."""
