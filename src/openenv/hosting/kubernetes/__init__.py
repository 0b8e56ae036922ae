"""Kubernetes: manifests of pods and deployments, and the connection to a cluster."""
