"""Dead letters: rejected rows with their reasons, kept in a table, and written again."""
