"""Programs that play in processes of their own: the client of either side, and bare sockets."""
