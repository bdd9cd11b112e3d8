"""Outside data comes in: git histories become edits, problem sets and trajectories become records."""
