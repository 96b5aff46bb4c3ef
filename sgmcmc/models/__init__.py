"""Models for which the package has functions of their own, such as topic models."""
