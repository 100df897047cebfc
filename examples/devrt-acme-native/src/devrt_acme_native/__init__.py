"""A native backend to copy: a simulated accelerator with memory of its own, for devrt."""
