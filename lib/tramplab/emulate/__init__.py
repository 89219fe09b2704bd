"""From guest sources to counted executions. Knows machines and code, nothing of ftrace's bookkeeping."""
