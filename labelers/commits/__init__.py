"""Commits become preference pairs: which criterion an edit improves, the task it answers, the prompt."""
