"""A slow machine is no defect: no example has a deadline."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None, max_examples=50)
settings.load_profile("no-deadline")
