"""Elements of arrays from one process to another, over plain connections; knows no arrays.

A server holds *offers*, each under a number: blocks of arrays in host memory. Who pulls one opens
a *lease* of it, reads regions of its blocks over several connections straight into memory of its
own, and ends the lease. `devrt.experimental.transfer` makes offers of arrays, and arrays of what
is read.

Sockets of the standard library carry the bytes. ``python -m bench transfer`` measures them beside
gRPC streams, Arrow Flight and UCX: on loopback none of those was faster for 64 MiB and more, and
most took over twice as long. Only with sockets and UCX does a process choose the memory that it
receives into.
"""
