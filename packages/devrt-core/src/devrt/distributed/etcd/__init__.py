"""A store in etcd: its protocol through gRPC, with stubs of our own."""
