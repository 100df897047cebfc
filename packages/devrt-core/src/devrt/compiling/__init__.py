"""What every client that compiles StableHLO decides in the same way."""
