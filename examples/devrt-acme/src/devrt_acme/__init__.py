"""A backend to copy: a simulated accelerator for devrt."""
