"""Judging changes by models: what judges see, what they are asked, and what follows from their answers."""
