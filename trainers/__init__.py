"""Shards become models: training, evaluation, scoring and export of reward models.

At module level this room imports torch, transformers, tokenizers, safetensors, pyarrow, numpy, pyyaml,
the standard library and `schemas`, nothing else: it runs on a bare GPU machine. `trainers.config`
needs none of the heavy ones.
"""
