"""What a criterion classifier sees of an edit, and the linear model that scores it."""
