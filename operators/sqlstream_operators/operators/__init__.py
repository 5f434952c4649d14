"""The stateful operators, by family; here what all of them share, and which class runs which spec."""
