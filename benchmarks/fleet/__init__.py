"""A fleet of servers for a million sessions: service times measured, queues simulated, and the model checked."""
