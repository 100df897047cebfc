"""A backend to begin with: a PJRT library, and what only its vendor knows of it."""
