"""`make bench`: what arcops costs, each figure beside its yardstick in the same run, and the budget."""
