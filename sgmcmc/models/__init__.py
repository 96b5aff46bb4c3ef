"""Models with samplers of their own."""
