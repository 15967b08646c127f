"""Training: the loss, the optimizer with the paper's schedule, and the loop."""
