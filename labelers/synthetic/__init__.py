"""Pairs of which one version was made on purpose: labelled by execution, never by how they look."""
