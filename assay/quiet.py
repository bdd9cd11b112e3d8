"""Loaded first by the server that forks workers: they never see Ctrl-C, from their first instant on.

A worker that was just forked would otherwise die with a traceback when the whole group is interrupted
before `assay.worker.start` runs. Not for import anywhere else.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
