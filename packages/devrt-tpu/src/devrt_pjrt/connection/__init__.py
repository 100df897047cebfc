"""What every object of one client shares: the connection to its plugin, devices and memories."""
