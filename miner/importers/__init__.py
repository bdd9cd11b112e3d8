"""Published problem sets and agent trajectories come in."""
