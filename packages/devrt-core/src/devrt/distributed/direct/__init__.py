"""Connections without HTTP/2 between devrt's own clients and service: the same calls, sooner.

gRPC in Python takes several times as long for a call of 64 bytes as the work on both sides, and its
import longer than to join a job. The service has one port for both: what begins as HTTP/2, or as
TLS, is passed on to gRPC. Clients that find another program than devrt's service at an address, as
jaxlib's, use gRPC, as do all where certificates are in use.
"""
