"""SessionManager of a server: capacity, responses that are kept, snapshots, and recording."""
