"""Code as functions: where they are, their skeletons, faults put into them. Nothing is run here."""
