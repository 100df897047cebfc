"""A backend to begin with: a simulated accelerator for devrt."""
