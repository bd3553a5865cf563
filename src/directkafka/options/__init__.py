"""Options: names and texts on the outside, typed and bounded values on the inside, parsed in one place."""
