"""From problems to step labels: decomposed programs, function tests, candidates, labels by execution."""
