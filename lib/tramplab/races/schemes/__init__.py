"""The patching schemes: plans of the kernel's, and plans that no kernel carries out."""
