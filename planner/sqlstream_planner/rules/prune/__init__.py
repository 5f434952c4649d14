"""Rules that leave out what nobody needs."""
