"""Records, Arrow schemas, shard files and run directories: the ground floor of the house.

What goes through here is what every other room reads and writes, so this package imports nothing of
ours and, except in `schemas.steps` (datatrove) and `schemas.hub` (huggingface_hub), nothing but
pyarrow and the standard library: a bare GPU machine can read shards.
"""
