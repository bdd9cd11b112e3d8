"""Other ways to isolate a job than the sandbox's own namespaces: each makes `Worker`s, or runs whole jobs."""
