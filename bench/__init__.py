"""devrt beside its peers: what each costs, measured in turn in the same run."""
