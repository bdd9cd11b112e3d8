"""Who answers: one module a backend, imported when it is first asked."""
