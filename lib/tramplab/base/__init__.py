"""What every room rests on: errors, arguments, data files and their types, caches, processes, the command line's parts.
Many doors because every room uses them."""
