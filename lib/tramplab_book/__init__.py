"""The book of Tramplab: studies of the lab, what is claimed and found, and how it is published."""
