"""Training of one model in one environment, with this package and with TRL's GRPOTrainer."""
