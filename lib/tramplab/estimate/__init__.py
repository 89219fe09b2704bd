"""What a recorded call costs a core: its return stack and its pipeline, and which models agree with what was timed."""
