"""Pure decisions over a snapshot of the cluster: no I/O, no clock."""
