"""What every room rests on: errors, arguments, files and their schemas, caches, processes, the command line's parts."""
