"""The front door: command line, recipe, runner, progress and report. Wiring only; the rooms do the work."""

__version__ = "0.1.0"
