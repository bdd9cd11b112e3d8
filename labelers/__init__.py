"""Every decision about quality: criteria, instructions, unit tests, outcome and step labels."""
