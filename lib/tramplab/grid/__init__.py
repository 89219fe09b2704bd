"""Every hook, argument count and number of callbacks, as one table: made by several processes, and taken up where it stopped."""
