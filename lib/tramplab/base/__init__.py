"""What every room rests on: errors, arguments, files and types of what they say, caches, processes, the command line's parts."""
