"""A native backend to begin with: a simulated accelerator with memory of its own, for devrt."""
