"""One server of several processes: a front door takes connections, and each worker plays a share of the sessions."""
