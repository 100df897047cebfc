"""A connection without HTTP/2 between devrt's own client and service: the same calls, sooner.

gRPC in Python takes several times as long for a call of 64 bytes as the work on both sides. The
service offers a port in its answer to ``RegisterTask``; clients that do not know it, jaxlib's among
them, stay with gRPC, as do all where certificates are in use.
"""
