"""How the criterion classifier is trained and measured: weak labels, annotated rows, heads, reports."""
