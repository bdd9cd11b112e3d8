"""Code that runs on the far side: the launcher, PID 1, and the harness around the program.

It is loaded by a bare interpreter (no site, empty environment), so it imports the standard library, and
of ours only what `farside` packs. The supervisor imports it too, for constants; importing has no effect.
"""
