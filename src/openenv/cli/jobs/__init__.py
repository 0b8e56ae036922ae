"""Commands that write what starts a training run on a cluster: a RayJob of KubeRay, a script of Slurm."""
