"""A guest's memory: its pages, as they are and as they were."""
