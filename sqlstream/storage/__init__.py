"""The files of a state directory: plans and manifests of epochs, dead letters, what is garbage, local caches."""
