"""One server of several processes: a dispatcher accepts connections, and each worker runs a share of the sessions."""
