"""The pages of the reference: made of descriptors, registries and the catalogue when the site is built."""
