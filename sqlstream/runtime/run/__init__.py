"""One run of a plan on a state directory: its request, its attempts, and the program that each gives to the loop."""
