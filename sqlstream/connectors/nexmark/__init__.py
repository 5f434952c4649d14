"""The `nexmark` connector: people, auctions and bids of an online auction."""
