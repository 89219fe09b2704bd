"""From counts to time: returns predicted, cycles estimated, times measured and published."""
