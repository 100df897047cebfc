"""Formats on the wire: protobuf records and pprof profiles."""
