"""Sandboxes for programs that no person has read: bubblewrap or Landlock, seccomp and limits."""
