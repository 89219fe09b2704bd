"""Many jobs on several processes of this machine, or on the workers of a cluster."""
