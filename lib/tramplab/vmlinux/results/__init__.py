"""The result for one kernel image: as data, as text, beside the lab's, and beside another image's."""
