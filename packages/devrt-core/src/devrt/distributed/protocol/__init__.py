"""What goes over the wire between a coordination service and its clients."""
